"""Dockerfiles, and the locks of what they install."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.deploy import dockerfiles
from tests.deploy.helm import ROOT


def test_nothing_is_wrong_with_dockerfiles_and_locks() -> None:
    assert list(dockerfiles.wrong()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("grpcio==", "grpcio==0.", "constraints.txt says"),
        ("fastapi==", "slowapi==", "fastapi, which services/router needs, is missing"),
        ("--hash=", "--hush=", "has no hash"),
    ],
)
def test_a_lock_that_says_something_else_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    shutil.copytree(ROOT / "deploy" / "docker", tmp_path / "docker")
    lock = tmp_path / "docker" / "locks" / "router.txt"
    text = lock.read_text("utf-8")
    assert f"\n{old}" in text or old.startswith("--")
    lock.write_text(text.replace(old, new), "utf-8")
    monkeypatch.setattr(dockerfiles, "LOCKS", [lock])
    assert said in "\n".join(dockerfiles.unlocked())
