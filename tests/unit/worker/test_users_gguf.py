"""A user's GGUF: served when paths can be joined in it, refused with the remedy when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiverse_shared.errors import InvalidModel
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions
from multiverse_worker.engines.llamacpp.model import load_model, vocabulary
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from multiverse_worker.models.tokens import check_tokens
from tests.unit.worker.ggufs import TOKENS, write_gguf, write_tokenizer
from tests.unit.worker.llamas import save_llama


def refusal_of(path: Path) -> str:
    with pytest.raises(InvalidModel) as refusal:
        load_model(path)
    assert str(path) in refusal.value.message
    return refusal.value.message


def test_a_gguf_with_a_vocabulary_of_its_own_computes(tmp_path: Path) -> None:
    library = Library(LibraryOptions(write_gguf(tmp_path / "m.gguf"), kv_cells=256, sequences=2))
    [row] = library.compute([1, 2], [0, 1], [0, 0], [False, True])
    library.close()
    assert row.shape == (len(TOKENS),)
    assert row.std() > 0


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("mamba", ["recurrent state", "full attention"]),
        ("gemma3", ["sliding window of 16 tokens", "full attention"]),
        ("unheard-of", ["'unheard-of'", "does not know it"]),
    ],
)
def test_a_model_whose_paths_cannot_be_joined_is_refused(
    tmp_path: Path, architecture: str, words: list[str]
) -> None:
    message = refusal_of(write_gguf(tmp_path / "m.gguf", architecture))
    assert all(word in message for word in words), message


@pytest.mark.parametrize("left", [100, -1])
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, left: int) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:left])
    assert "cut short; fetch it again" in refusal_of(path)


def test_a_file_that_is_no_gguf_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    assert "multiverse model export" in refusal_of(tmp_path / "bad.gguf")


def test_what_llama_cpp_says_later_is_not_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library = Library(LibraryOptions(write_gguf(tmp_path / "m.gguf"), kv_cells=256, sequences=2))
    library.compute([1], [7], [0], [True])
    with pytest.raises(RuntimeError, match="llama_decode failed"):
        library.compute([1], [7], [0], [True])  # the same position again
    library.close()
    assert "position" in capfd.readouterr().err


def test_a_gguf_is_not_converted_again(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    write_tokenizer(tmp_path)
    with pytest.raises(InvalidModel, match="GGUF file already and is served as it is"):
        export_gguf(ModelDirectory(tmp_path), tmp_path / "again.gguf", "f32")
    assert not (tmp_path / "again.gguf").exists()


# -- its tokenizer --------------------------------------------------------------------------------


def test_spellings_are_those_of_plain_tokens(tmp_path: Path) -> None:
    assert vocabulary(write_gguf(tmp_path / "m.gguf")) == [*TOKENS[:-1], None]


def test_our_own_files_spell_nothing(tmp_path: Path) -> None:
    export_gguf(save_llama(tmp_path / "m"), tmp_path / "m.gguf", "f32")
    assert vocabulary(tmp_path / "m.gguf") == [None] * 96


@pytest.fixture
def served(tmp_path: Path) -> ModelDirectory:
    write_gguf(tmp_path / "m.gguf")
    write_tokenizer(tmp_path)
    return ModelDirectory(tmp_path)


def check(model: ModelDirectory) -> None:
    assert model.gguf
    check_tokens(model, vocabulary(model.gguf))


def refused(model: ModelDirectory, words: str) -> None:
    with pytest.raises(InvalidModel, match=words) as refusal:
        check(model)
    assert str(model.path / "tokenizer.json") in refusal.value.message


def test_a_tokenizer_of_the_same_tokens_is_taken(served: ModelDirectory) -> None:
    check(served)


def test_a_tokenizer_may_know_fewer_tokens_than_padded_weights(served: ModelDirectory) -> None:
    write_gguf(served.path / "m.gguf", tokens=[*TOKENS[:-1], "<end>"])
    write_tokenizer(served.path, TOKENS[:95], added=0)
    check(served)


def test_one_respelt_token_in_a_hundred_is_no_other_model(served: ModelDirectory) -> None:
    tokens = [chr(0x4E00 + index) for index in range(200)]
    write_gguf(served.path / "m.gguf", tokens=[*tokens, "<end>"])
    write_tokenizer(served.path, [*tokens[:198], "x", "y", "<end>"])
    check(served)
    write_tokenizer(served.path, [*tokens[:197], "x", "y", "z", "<end>"])
    refused(served, "3 of 200 ids to different tokens")


def test_a_tokenizer_of_more_tokens_is_refused(served: ModelDirectory) -> None:
    write_tokenizer(served.path, [*TOKENS, "<Parallel>", "</Parallel>"], added=3)
    refused(served, "ids up to 97, .*rows for 96 tokens")


def test_a_tokenizer_of_another_order_is_refused(served: ModelDirectory) -> None:
    write_tokenizer(served.path, [*TOKENS[1:95], TOKENS[0], "<end>"])
    refused(served, "95 of 95 ids to different tokens; .*belongs to the weights")


def test_a_tokenizer_that_cannot_be_read_is_refused(served: ModelDirectory) -> None:
    (served.path / "tokenizer.json").write_text("{}")
    refused(served, "cannot be read")
