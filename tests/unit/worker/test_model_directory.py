"""What a model directory must hold, and what its digests cover."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.directory import ModelDirectory

FILES = {
    "config.json": b"{}",
    "tokenizer.json": b'{"t": 1}',
    "multiverse.json": b'{"m": 1}',
    "model.safetensors": b"weights",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_a_complete_directory_is_taken_and_named(directory: Path) -> None:
    model = ModelDirectory(directory)
    assert model.name == directory.name
    assert model.weights == [directory / "model.safetensors"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "multiverse.json"])
def test_a_missing_file_is_named_with_the_directory(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(InvalidModel) as refusal:
        ModelDirectory(directory)
    assert f"has no {name}" in refusal.value.message
    assert str(directory) in refusal.value.message


def test_missing_weights_are_named(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    with pytest.raises(InvalidModel, match=r"no \*\.safetensors"):
        _ = ModelDirectory(directory).weights


def test_a_path_that_is_no_directory_is_refused(directory: Path) -> None:
    for path in (directory / "nowhere", directory / "config.json"):
        with pytest.raises(InvalidModel, match="not a directory"):
            ModelDirectory(path)


def test_only_text_files_are_given_away(directory: Path) -> None:
    (directory / "chat_template.jinja").write_bytes(b"{{ x }}")
    (directory / "secret.txt").write_bytes(b"!")
    files = ModelDirectory(directory).text_files
    assert files == {
        "tokenizer.json": FILES["tokenizer.json"],
        "multiverse.json": FILES["multiverse.json"],
        "chat_template.jinja": b"{{ x }}",
    }


def test_the_files_digest_covers_names_and_contents(directory: Path) -> None:
    model = ModelDirectory(directory)
    digests = [model.files_digest]
    (directory / "tokenizer.json").write_bytes(b"{}")
    digests.append(model.files_digest)
    (directory / "tokenizer_config.json").write_bytes(b"x")
    digests.append(model.files_digest)
    (directory / "tokenizer_config.json").rename(directory / "generation_config.json")
    digests.append(model.files_digest)
    assert len(set(digests)) == 4


def test_the_files_digest_is_blind_to_the_weights(directory: Path) -> None:
    model = ModelDirectory(directory)
    before = model.files_digest
    (directory / "model.safetensors").write_bytes(b"others")
    assert model.files_digest == before


def test_the_weights_digest_covers_the_config_and_every_shard(directory: Path) -> None:
    model = ModelDirectory(directory)
    assert model.weights_digest == hashlib.sha256(b"{}weights").hexdigest()
    (directory / "config.json").write_bytes(b"{ }")
    other_config = model.weights_digest
    (directory / "model-2.safetensors").write_bytes(b"more")
    assert len({hashlib.sha256(b"{}weights").hexdigest(), other_config, model.weights_digest}) == 3
