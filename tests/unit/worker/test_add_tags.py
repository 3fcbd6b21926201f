"""Tags added to small real Llamas: what changes, what stays, and that the result computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from multiverse_shared.dialect import load_dialect
from multiverse_shared.errors import InvalidModel
from multiverse_shared.tag_tokens import words
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions
from multiverse_worker.models.add_tags import add_tags
from multiverse_worker.models.checkpoint import to_stored
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from multiverse_worker.models.vocabulary_rows import EMBEDDING, HEAD
from tests.unit.shared import vocabularies
from tests.unit.worker.llamas import load_llama, logits_of, save_llama

DIALECT = load_dialect("multiverse")
TAGS = tuple(DIALECT.tags.values())


def bare_tokenizer() -> str:
    """Byte-level, and no special tokens but those that its vocabulary begins with."""
    definition = json.loads(vocabularies.bytes_merged())
    vocabulary = definition["model"]["vocab"]
    for number, tag in enumerate(TAGS):  # ids without holes
        vocabulary[f"unused {number}"] = vocabulary.pop(tag)
    kept = [token for token in definition["added_tokens"] if token["content"] not in TAGS]
    return json.dumps({**definition, "added_tokens": kept})


SIZE = TextTokenizer(bare_tokenizer()).vocab_size


def save_model(path: Path, *, spare: int = 0, **config: Any) -> ModelDirectory:
    """A Llama that has never heard of tags."""
    model = save_llama(path, vocab_size=SIZE + spare, **config)
    (path / "tokenizer.json").write_text(bare_tokenizer(), "utf-8")
    (path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>"}'
    )
    (path / "multiverse.json").unlink()
    return model


def tensors(path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for file in path.glob("*.safetensors"):
        found |= load_file(file)
    return found


def tagged(source: ModelDirectory, folder: Path) -> ModelDirectory:
    add_tags(source.path, folder / "tagged", DIALECT)
    return ModelDirectory(folder / "tagged")


def expected_row(matrix: torch.Tensor, tag: str) -> torch.Tensor:
    ids = TextTokenizer(bare_tokenizer()).encode(words(tag))
    return matrix.float()[ids].mean(0).to(matrix.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("spare", [0, 4, 40])
def test_tags_get_the_mean_of_their_words_and_nothing_else_changes(
    tmp_path: Path, dtype: torch.dtype, tied: bool, spare: int
) -> None:
    source = save_model(tmp_path / "m", spare=spare, dtype=dtype, tie_word_embeddings=tied)
    before = tensors(source.path)
    model = tagged(source, tmp_path)
    after = tensors(model.path)
    assert after.keys() == before.keys()
    rows = SIZE + max(spare, len(TAGS))
    for name, old in before.items():
        new = after[name]
        assert new.dtype == old.dtype == dtype
        if name not in (EMBEDDING, HEAD):
            assert torch.equal(new, old)
            continue
        assert new.shape == (rows, old.shape[1])
        assert torch.equal(new[:SIZE], old[:SIZE])
        assert torch.equal(new[SIZE + len(TAGS) :], old[SIZE + len(TAGS) :])
        for number, tag in enumerate(TAGS):
            torch.testing.assert_close(new[SIZE + number], expected_row(old, tag))
    assert (HEAD in after) != tied
    assert json.loads((model.path / "config.json").read_text())["vocab_size"] == rows


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_numbers_are_rounded_as_torch_rounds_them(kind: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 0x7F00, 4000, dtype=np.uint32) << 16
    values = (bits + rng.choice([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], 4000)).astype(np.uint32)
    floats = values.view(np.float32) if kind != "F16" else rng.normal(size=4000).astype("f4")
    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    expected = torch.from_numpy(floats).to(dtype).view(torch.uint8).numpy().tobytes()
    assert to_stored(floats, kind) == expected


def test_the_copy_says_its_dialect_and_its_tokens(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    done = add_tags(source.path, tmp_path / "out", load_dialect("npr"))
    card = json.loads((tmp_path / "out/multiverse.json").read_text())
    assert card == {"dialect": "npr", "prompt_suffix": ""}
    tokenizer = TextTokenizer.from_directory(tmp_path / "out")
    tags = load_dialect("npr").tags.values()
    assert done.new == {tag: tokenizer.token_id(tag) for tag in tags}
    assert not done.kept
    assert done.vocab_size == tokenizer.vocab_size == SIZE + len(tags)


def test_transformers_sees_the_tags_as_special_tokens(tmp_path: Path) -> None:
    model = tagged(save_model(tmp_path / "m"), tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model.path)
    ids = tokenizer("the<Path>answer</Path>", add_special_tokens=False).input_ids
    assert ids.count(SIZE + TAGS.index("<Path>")) == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == "theanswer"
    assert set(TAGS) <= set(tokenizer.all_special_tokens)


def test_a_card_of_before_keeps_its_prompt_suffix(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    (source.path / "multiverse.json").write_text('{"dialect": "npr", "prompt_suffix": " go"}')
    card = json.loads((tagged(source, tmp_path).path / "multiverse.json").read_text())
    assert card == {"dialect": "multiverse", "prompt_suffix": " go"}


def test_adding_again_changes_nothing(tmp_path: Path) -> None:
    once = tagged(save_model(tmp_path / "m"), tmp_path)
    done = add_tags(once.path, tmp_path / "again", DIALECT)
    assert not done.new
    assert list(done.kept) == list(TAGS)
    for path in once.path.iterdir():
        again = tmp_path / "again" / path.name
        if path.suffix == ".safetensors":
            assert all(map(torch.equal, load_file(path).values(), load_file(again).values()))
        else:
            assert json.loads(again.read_text()) == json.loads(path.read_text())


def test_special_tokens_without_rows_get_them(tmp_path: Path) -> None:
    """A tokenizer that someone added the tags to, beside a model that did not grow."""
    source = save_model(tmp_path / "m")
    model = tagged(source, tmp_path)
    (source.path / "tokenizer.json").write_bytes((model.path / "tokenizer.json").read_bytes())
    done = add_tags(source.path, tmp_path / "again", DIALECT)
    assert list(done.new) == list(TAGS)
    assert torch.equal(tensors(tmp_path / "again")[EMBEDDING], tensors(model.path)[EMBEDDING])


def test_shards_keep_their_tensors_and_the_index_counts_the_new_rows(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m", tie_word_embeddings=False)
    whole = tensors(source.path)
    (source.path / "model.safetensors").unlink()
    names = sorted(whole)
    places = {name: f"part-{number % 3}.safetensors" for number, name in enumerate(names)}
    for file in set(places.values()):
        part = {name: whole[name] for name in names if places[name] == file}
        save_file(part, source.path / file, {"format": "pt"})
    size = sum(tensor.nbytes for tensor in whole.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (source.path / "model.safetensors.index.json").write_text(json.dumps(index))
    model = tagged(source, tmp_path)
    for file in set(places.values()):
        with safe_open(model.path / file, "pt") as part:
            assert set(part.keys()) == {name for name in names if places[name] == file}
            assert part.metadata() == {"format": "pt"}
    told = json.loads((model.path / "model.safetensors.index.json").read_text())
    assert told["weight_map"] == places
    assert told["metadata"]["total_size"] == sum(t.nbytes for t in tensors(model.path).values())
    assert load_llama(model).get_output_embeddings().weight.shape[0] == SIZE + len(TAGS)


@pytest.mark.parametrize("tied", [True, False])
def test_llama_cpp_computes_with_the_new_rows(tmp_path: Path, tied: bool) -> None:
    model = tagged(save_model(tmp_path / "m", tie_word_embeddings=tied), tmp_path)
    export_gguf(model, tmp_path / "model.gguf", "f32")
    library = Library(LibraryOptions(tmp_path / "model.gguf", 256, 2, 64, 1, "f32", False))
    ids = TextTokenizer.from_directory(model.path).encode_trusted(
        "the <Parallel><Goal><Outline>answer</Outline></Goal><Path>1</Path></Parallel>"
    )
    assert len({index for index in ids if index >= SIZE}) == 8
    rows = library.compute(ids, list(range(len(ids))), [0] * len(ids), [True] * len(ids))
    library.close()
    assert library.vocab_size == SIZE + len(TAGS)
    assert np.abs(np.stack(rows) - logits_of(load_llama(model), tuple(ids))).max() < 1e-4


def test_weights_of_other_formats_are_left_behind(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    for name in ("pytorch_model.bin", "old.gguf", "README.md"):
        (source.path / name).write_bytes(b"x")
    model = tagged(source, tmp_path)
    assert (model.path / "README.md").read_bytes() == b"x"
    assert not (model.path / "pytorch_model.bin").exists()
    assert not (model.path / "old.gguf").exists()


# -- refusals ------------------------------------------------------------------------------------


def refused(source: Path, folder: Path) -> str:
    """The sentence of the refusal; nothing may be left behind."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(InvalidModel) as refusal:
        add_tags(source, folder / "out", DIALECT)
    assert not list(folder.iterdir())
    return refusal.value.message


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    source = save_model(tmp_path / "m")
    (source.path / name).unlink()
    assert name.removeprefix("model") in refused(source.path, tmp_path / "new")


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    source = save_model(tmp_path / "m")
    (source.path / name).write_text(content)
    assert name in refused(source.path, tmp_path / "new")


def test_a_size_that_the_weights_do_not_have_is_refused(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    config = json.loads((source.path / "config.json").read_text())
    (source.path / "config.json").write_text(json.dumps({**config, "vocab_size": SIZE + 1}))
    assert str(SIZE + 1) in refused(source.path, tmp_path / "new")


def test_a_token_without_a_row_that_is_no_tag_is_refused(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m", spare=-1)
    assert f"token {SIZE - 1}" in refused(source.path, tmp_path / "new")


def test_an_embedding_of_another_name_is_refused(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    weights = source.path / "model.safetensors"
    save_file({"wte.weight": torch.ones(SIZE, 4)}, weights)
    assert EMBEDDING in refused(source.path, tmp_path / "new")


def test_a_number_type_that_we_cannot_write_is_refused(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    weights = source.path / "model.safetensors"
    save_file({EMBEDDING: torch.ones(SIZE, 4, dtype=torch.int8)}, weights)
    assert "I8" in refused(source.path, tmp_path / "new")


def test_a_tokenizer_that_drops_the_words_of_a_tag_is_refused(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m", spare=3 - SIZE)
    drops = Tokenizer(models.BPE({"x": 0, "y": 1, "z": 2}, []))
    (source.path / "tokenizer.json").write_text(drops.to_str(), "utf-8")
    assert "'Parallel', which <Parallel> stands for" in refused(source.path, tmp_path / "new")


def test_a_directory_that_exists_is_not_touched(tmp_path: Path) -> None:
    source = save_model(tmp_path / "m")
    with pytest.raises(InvalidModel, match="exists"):
        add_tags(source.path, source.path, DIALECT)
    assert TextTokenizer.from_directory(source.path).vocab_size == SIZE


def test_a_source_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    assert "not a directory" in refused(tmp_path / "nowhere", tmp_path / "new")
