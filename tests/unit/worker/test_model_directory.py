"""What a model directory must hold, and what its digests cover."""

from __future__ import annotations

import hashlib
import json
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
    with pytest.raises(InvalidModel, match=r"no \*\.safetensors and no \*\.gguf"):
        _ = ModelDirectory(directory).weights


def test_an_index_says_which_files_hold_the_weights(directory: Path) -> None:
    index = directory / "model.safetensors.index.json"
    names = ["model-1.safetensors", "model-2.safetensors"]
    index.write_text(json.dumps({"weight_map": {"b": names[1], "a": names[0], "c": names[0]}}))
    (directory / names[0]).write_bytes(b"1")
    model = ModelDirectory(directory)
    with pytest.raises(InvalidModel, match=r"has no model-2\.safetensors, which its index names"):
        _ = model.weights
    (directory / names[1]).write_bytes(b"2")
    assert model.weights == [directory / name for name in names]
    index.write_text("[]")
    with pytest.raises(InvalidModel, match="is no index"):
        _ = model.weights


# -- a GGUF in place of the safetensors -----------------------------------------------------------


@pytest.fixture
def gguf(directory: Path) -> Path:
    """The only weights of the directory."""
    for name in ("config.json", "model.safetensors"):
        (directory / name).unlink()
    path = directory / "some-model.gguf"
    path.write_bytes(b"GGUF weights")
    return path


def test_a_gguf_beside_the_text_files_is_a_model(directory: Path, gguf: Path) -> None:
    model = ModelDirectory(directory)
    assert model.gguf == gguf
    assert model.weights_digest == hashlib.sha256(b"GGUF weights").hexdigest()


def test_safetensors_are_served_when_a_gguf_was_written_beside_them(directory: Path) -> None:
    (directory / "exported.gguf").write_bytes(b"GGUF")
    model = ModelDirectory(directory)
    assert model.gguf is None
    assert model.weights == [directory / "model.safetensors"]


def test_a_gguf_that_is_named_is_served_in_place_of_what_is_there(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    given = tmp_path_factory.mktemp("elsewhere") / "given.gguf"
    given.write_bytes(b"GGUF")
    assert ModelDirectory(directory, given).gguf == given
    given.unlink()
    with pytest.raises(InvalidModel, match="there is no GGUF file") as refusal:
        ModelDirectory(directory, given)
    assert refusal.value.field == "weights"


def test_of_several_ggufs_one_must_be_named(directory: Path, gguf: Path) -> None:
    (directory / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(InvalidModel, match=r"2 GGUF files.*MULTIVERSE_WORKER_WEIGHTS"):
        ModelDirectory(directory)
    assert ModelDirectory(directory, gguf).gguf == gguf


def test_a_part_of_a_split_gguf_is_refused_with_the_remedy(directory: Path, gguf: Path) -> None:
    for number in (1, 2):
        (directory / f"m-0000{number}-of-00002.gguf").write_bytes(b"GGUF")
    gguf.unlink()
    with pytest.raises(InvalidModel, match="llama-gguf-split --merge"):
        ModelDirectory(directory)


def test_a_gguf_without_tokenizer_json_is_refused_with_the_way_to_one(
    directory: Path, gguf: Path
) -> None:
    (directory / "tokenizer.json").unlink()
    with pytest.raises(InvalidModel, match=r"no tokenizer.json; .*inside some-model.gguf.*AutoTok"):
        ModelDirectory(directory)


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
