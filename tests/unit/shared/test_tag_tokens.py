"""Tags as special tokens of a tokenizer definition, for all kinds of vocabularies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer

from multiverse_shared.dialect import load_dialect
from multiverse_shared.errors import InvalidModel
from multiverse_shared.tag_tokens import TagTokens, with_tags, words
from multiverse_shared.tokenizer import TextTokenizer
from tests.security import kinds
from tests.unit.shared import vocabularies
from tests.unit.shared.vocabularies import TAGS

# No special tokens; those of `tests.security` spell the tags in their own vocabulary.
BARE = {
    "bytes": vocabularies.bytes_merged,
    "characters": vocabularies.characters,
    **{kind: (lambda kind=kind: kinds.raw(kind, "multiverse").to_str()) for kind in kinds.KINDS},
}


def bare(name: str) -> dict[str, Any]:
    """A definition in which no token is special."""
    return {**json.loads(BARE[name]()), "added_tokens": []}


def loaded(tokens: TagTokens) -> TextTokenizer:
    return TextTokenizer(json.dumps(tokens.definition))


@pytest.mark.parametrize("name", BARE)
def test_the_library_gives_every_tag_the_id_that_we_say(name: str) -> None:
    tokens = with_tags(bare(name), TAGS)
    tokenizer = loaded(tokens)
    assert list(tokens.ids) == list(TAGS)
    for tag, index in tokens.ids.items():
        assert tokenizer.encode_trusted(f"a{tag}b{tag}").count(index) == 2
        assert tokenizer.token_id(tag) == index


@pytest.mark.parametrize("name", BARE)
def test_new_tags_stand_behind_the_vocabulary_and_known_ones_keep_their_ids(name: str) -> None:
    before = Tokenizer.from_str(json.dumps(bare(name)))
    tokens = with_tags(bare(name), TAGS)
    size = before.get_vocab_size()
    for tag, index in tokens.ids.items():
        known = before.token_to_id(tag)
        assert index == known if known is not None else index >= size
        assert (tag in tokens.new) == (known is None)
    assert sorted(tokens.new.values()) == list(range(size, size + len(tokens.new)))


def test_other_special_tokens_and_all_else_stay(bytes_merged: TextTokenizer) -> None:
    definition = json.loads(vocabularies.bytes_merged())
    tokens = with_tags(definition, ["<more>"])
    assert tokens.definition["added_tokens"][:-1] == definition["added_tokens"]
    assert tokens.ids == tokens.new == {"<more>": bytes_merged.vocab_size}
    assert {**tokens.definition, "added_tokens": []} == {**definition, "added_tokens": []}
    text = "the answer <Path> is é"
    assert loaded(tokens).encode_trusted(text) == bytes_merged.encode_trusted(text)


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word", "normalized"])
def test_a_tag_that_takes_its_neighbours_is_set_right(flag: str) -> None:
    definition = json.loads(vocabularies.bytes_merged())
    wrong = [{**token, flag: True, "special": False} for token in definition["added_tokens"]]
    tokens = with_tags({**definition, "added_tokens": wrong}, TAGS)
    right = {token["content"]: token for token in tokens.definition["added_tokens"]}
    assert len(right) == len(tokens.definition["added_tokens"])
    assert all(not right[tag][flag] and right[tag]["special"] for tag in TAGS)
    assert not tokens.new


def test_a_vocabulary_with_holes_is_refused() -> None:
    definition = bare("characters")
    definition["model"]["vocab"] = {**definition["model"]["vocab"], "far": 5000}
    with pytest.raises(InvalidModel, match="5000"):
        with_tags(definition, TAGS)


def test_a_tag_stands_for_its_name_and_a_closing_one_for_the_end_of_it() -> None:
    assert words("<Parallel>") == "Parallel"
    assert words("</Parallel>") == "end of Parallel"
    assert (words("<sync/>"), words("/>")) == ("sync", "end")
    for name in kinds.DIALECTS:
        spelled = [words(tag) for tag in load_dialect(name).tags.values()]
        assert len(set(spelled)) == len(spelled)
