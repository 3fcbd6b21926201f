"""Text is data: control ids come by name or from trusted templates only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from multiverse_shared.errors import InvalidModel
from multiverse_shared.tokenizer import TextTokenizer
from tests.unit.shared import vocabularies
from tests.unit.shared.vocabularies import ALPHABET, EOS, TAGS

BUILDERS = ["characters", "bytes_merged", "words"]
_tokenizers = {name: TextTokenizer(getattr(vocabularies, name)()) for name in BUILDERS}
_pieces = st.sampled_from([*TAGS, EOS, "<", ">", "</", " ", "\n", "Path", "two", "a", "</Pa"])
_hostile = st.lists(_pieces | st.text(max_size=4), max_size=8).map("".join)


@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=40, deadline=None)
@given(text=_hostile)
def test_plain_text_never_yields_a_control_id(name: str, text: str) -> None:
    tokenizer = _tokenizers[name]
    assert tokenizer.control_ids.isdisjoint(tokenizer.encode(text))


@settings(max_examples=40, deadline=None)
@given(text=_hostile)
def test_any_text_comes_back_from_its_bytes(text: str) -> None:
    tokenizer = _tokenizers["bytes_merged"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=40, deadline=None)
@given(text=st.lists(_pieces | st.text(ALPHABET, max_size=4), max_size=8).map("".join))
def test_text_of_known_characters_comes_back_tags_included(text: str) -> None:
    tokenizer = _tokenizers["characters"]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == len(text)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("tag", [*TAGS, EOS])
def test_a_trusted_tag_is_its_control_id_and_a_told_one_is_spelled_out(name: str, tag: str) -> None:
    tokenizer = _tokenizers[name]
    token = tokenizer.token_id(tag)
    assert token in tokenizer.control_ids
    assert tokenizer.encode_trusted(tag) == [token]
    assert len(tokenizer.encode(tag)) > 1
    assert tokenizer.decode(tokenizer.encode(tag)) == tag == tokenizer.decode([token])


def test_a_told_tag_does_not_change_how_the_words_around_it_are_encoded(
    bytes_merged: TextTokenizer,
) -> None:
    words = bytes_merged.encode("the answer")
    assert len(words) < len("the answer")
    ids = bytes_merged.encode("the answer</Goal>the answer")
    assert ids[: len(words)] == ids[-len(words) :] == words


def test_trusted_text_mixes_tags_and_plain_text(tokenizer: TextTokenizer) -> None:
    text = "so <Goal>12 + 30</Goal> now"
    goal = tokenizer.token_id("<Goal>")
    ids = tokenizer.encode_trusted(text)
    assert ids[: ids.index(goal)] == tokenizer.encode("so ")
    assert [index for index in ids if index in tokenizer.control_ids] == [
        goal,
        tokenizer.token_id("</Goal>"),
    ]
    assert tokenizer.decode(ids) == text


def test_words_of_a_vocabulary_that_spells_tags_stay_words_where_no_tag_is_told() -> None:
    tokenizer = _tokenizers["words"]
    assert len(tokenizer.encode("two words")) == 2


def test_a_tag_that_the_vocabulary_adds_without_calling_it_special_is_control() -> None:
    definition = json.loads(vocabularies.bytes_merged())
    for token in definition["added_tokens"]:
        token["special"] = False
    tokenizer = TextTokenizer(json.dumps(definition))
    path = tokenizer.token_id("<Path>")
    assert tokenizer.encode_trusted("<Path>") == [path]
    assert path not in tokenizer.encode("a<Path>b")
    assert tokenizer.decode(tokenizer.encode("a<Path>b")) == "a<Path>b"


def test_runs_of_spaces_that_a_vocabulary_adds_are_text() -> None:
    known = Tokenizer.from_str(vocabularies.bytes_merged())
    known.add_tokens([AddedToken("    ", normalized=False)])
    tokenizer = TextTokenizer(known.to_str())
    spaces = known.token_to_id("    ")
    assert spaces in tokenizer.encode("if x:\n    y")
    assert spaces not in tokenizer.control_ids
    assert tokenizer.decode(tokenizer.encode("    <Path>    ")) == "    <Path>    "


def test_unknown_text_is_text_though_its_token_is_special() -> None:
    definition = json.loads(vocabularies.words())
    known = Tokenizer.from_str(json.dumps(definition))
    known.add_special_tokens(["?"])
    tokenizer = TextTokenizer(known.to_str())
    assert tokenizer.encode("two zebras") == [tokenizer.encode("two")[0], tokenizer.unknown_id]
    assert tokenizer.unknown_id not in tokenizer.control_ids
    assert tokenizer.token_id("?") is None


def test_a_word_that_is_a_tag_is_spelled_out_and_its_neighbours_stay_words() -> None:
    tokenizer = _tokenizers["words"]
    two, words = tokenizer.encode("two words")
    ids = tokenizer.encode("two <Path> words")
    assert (ids[0], ids[-1]) == (two, words)
    assert tokenizer.decode(ids[1:-1]) == "<Path>"


def test_only_special_tokens_are_had_by_name(tokenizer: TextTokenizer) -> None:
    assert tokenizer.token_id("a") is None
    assert tokenizer.token_id("<Nothing>") is None
    assert tokenizer.control_ids == {tokenizer.token_id(tag) for tag in (*TAGS, EOS)}


def test_the_size_of_the_vocabulary_counts_special_tokens(characters: TextTokenizer) -> None:
    assert characters.vocab_size == len(ALPHABET) + 1 + len(TAGS) + 1
    assert max(characters.control_ids) == characters.vocab_size - 1


def test_a_directory_is_read_or_named_in_the_refusal(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"has no tokenizer\.json") as caught:
        TextTokenizer.from_directory(tmp_path)
    assert str(tmp_path) in caught.value.message
    (tmp_path / "tokenizer.json").write_text(vocabularies.characters(), "utf-8")
    assert TextTokenizer.from_directory(tmp_path).encode("ab") == _tokenizers["characters"].encode(
        "ab"
    )
