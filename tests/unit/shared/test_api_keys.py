"""Key files: what a line may be, and what happens when the file changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from multiverse_shared.api_keys import Allowance, KeyFile, Keyring, new_key
from multiverse_shared.errors import InvalidRequest

HASH = "sha256:" + "0" * 64


def test_a_new_key_is_known_by_its_line() -> None:
    key, line = new_key("alice", concurrency=3)
    found = Keyring.parse([line], "here").find(key)
    assert found
    assert (found.name, found.allowance) == ("alice", Allowance(concurrency=3))
    assert key not in line
    assert hashlib.sha256(key.encode()).hexdigest() in line


def test_no_two_keys_are_alike() -> None:
    keys = {new_key("a")[0] for _ in range(100)}
    assert len(keys) == 100
    assert min(map(len, keys)) >= 43


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        f"alice {HASH[:-1]}",
        f"alice {HASH}0",
        f"alice {HASH} concurrency=0",
        f"alice {HASH} concurrency=-1",
        f"alice {HASH} concurrency=many",
        f"alice {HASH} rate=5",
        f"alice {HASH} tokens=0",
        f"alice {HASH} tokens=5 tokens=6",
        f"al ice {HASH}",
        f"{'a' * 65} {HASH}",
        f"al\x00ice {HASH}",
        "alice mv-" + "x" * 43,
    ],
)
def test_a_line_of_another_form_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(InvalidRequest, match=r"keys, line 3.*multiverse key new") as error:
        Keyring.parse(["# a comment, with a comma", "", line], "keys")
    assert "x" * 43 not in error.value.message  # somebody put the key itself there


def test_keys_of_one_name_have_the_same_limits() -> None:
    lines = [new_key("alice", concurrency=2)[1], new_key("bob")[1], new_key("alice")[1]]
    with pytest.raises(InvalidRequest, match="line 3"):
        Keyring.parse(lines, "keys")


def test_a_name_that_is_none_makes_no_key() -> None:
    with pytest.raises(InvalidRequest):
        new_key("al ice")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_file_is_looked_at_once_a_second(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "keys"
    (old, old_line), (new, new_line) = new_key("a"), new_key("a")
    file.write_text(old_line)
    keys = KeyFile(file, clock=clock)
    file.write_text(new_line)
    os.utime(file, (1, 1))
    clock.now = 0.9
    assert keys.ring.find(old)
    clock.now = 1.0
    assert keys.ring.find(new)
    assert not keys.ring.find(old)


def test_keys_of_the_settings_stay_beside_those_of_the_file(tmp_path: Path) -> None:
    (one, first), (two, second) = new_key("a"), new_key("b")
    file = tmp_path / "keys"
    file.write_text(second)
    ring = KeyFile(file, first).ring
    assert ring.find(one)
    assert ring.find(two)


def test_a_missing_or_wrong_file_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="keys"):
        KeyFile(tmp_path / "keys")
    (tmp_path / "keys").write_bytes(b"\xff")
    with pytest.raises(InvalidRequest, match="UTF-8"):
        KeyFile(tmp_path / "keys")
