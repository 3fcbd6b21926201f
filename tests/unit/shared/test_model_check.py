"""What the check says of tokenizers that carry their tags, and of those that do not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from multiverse_shared.dialect import Dialect, Tag, load_dialect
from multiverse_shared.model_check import (
    Finding,
    Verdict,
    check_eos,
    check_offsets,
    check_sizes,
    check_tags,
    check_text,
)
from multiverse_shared.neighbours import NEIGHBOURS
from multiverse_shared.tokenizer import TextTokenizer
from tests.security import kinds
from tests.unit.shared import vocabularies
from tests.unit.shared.vocabularies import EOS

MULTIVERSE = load_dialect("multiverse")
REMEDY = "multiverse model add-tags DIR"


def changed(**flags: Any) -> TextTokenizer:
    """Byte-level, with these flags on the tag <Path>."""
    definition = json.loads(vocabularies.bytes_merged())
    [path] = [token for token in definition["added_tokens"] if token["content"] == "<Path>"]
    path.update(flags)
    return TextTokenizer(json.dumps(definition))


def without_specials(source: str) -> TextTokenizer:
    return TextTokenizer(json.dumps({**json.loads(source), "added_tokens": []}))


def refused(tokenizer: TextTokenizer, dialect: Dialect = MULTIVERSE) -> dict[str, Finding]:
    """Findings by tag; all name the remedy."""
    found = check_tags(dialect, tokenizer, REMEDY)
    assert {finding.verdict for finding in found} == {Verdict.REFUSED}
    assert {finding.remedy for finding in found} == {REMEDY}
    assert all(finding.tag and finding.message.startswith(finding.tag) for finding in found)
    return {str(finding.tag): finding for finding in found}


def test_the_common_strings_are_two_hundred() -> None:
    assert len(set(NEIGHBOURS)) == len(NEIGHBOURS) == 200
    assert all(NEIGHBOURS)


def test_a_tokenizer_that_tells_any_text_passes(bytes_merged: TextTokenizer) -> None:
    assert check_text(bytes_merged).verdict is Verdict.OK


def test_a_tokenizer_that_fails_on_unknown_text_is_refused() -> None:
    definition = json.loads(vocabularies.characters())
    definition["model"]["unk_token"] = "<nowhere>"
    found = check_text(TextTokenizer(json.dumps(definition)))
    assert found.verdict is Verdict.REFUSED
    assert "unknown text" in str(found.remedy)


def test_text_that_comes_back_changed_is_a_note_with_an_example(characters: TextTokenizer) -> None:
    note = check_text(characters)
    assert note.verdict is Verdict.NOTE
    assert note.example is not None
    assert characters.decode(characters.encode(note.example)) != note.example


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind != "words, folded"])
@pytest.mark.parametrize("name", kinds.DIALECTS)
def test_tags_that_are_special_tokens_pass(kind: str, name: str) -> None:
    [finding] = check_tags(load_dialect(name), kinds.tokenizer(kind, name), REMEDY)
    assert finding.verdict is Verdict.OK
    assert f"beside {200 + len(load_dialect(name).tags)} texts" in finding.message


def test_tags_that_merge_with_their_neighbours_are_refused_with_an_example() -> None:
    tokenizer = without_specials(kinds.raw("SentencePiece BPE", "multiverse").to_str())
    found = refused(tokenizer)
    assert found.keys() == set(MULTIVERSE.tags.values())
    for tag, finding in found.items():
        assert finding.example is not None
        assert tag in finding.example
        assert finding.example != tag
        ids, there = tokenizer.encode_trusted(tag), tokenizer.encode_trusted(finding.example)
        assert there[: len(ids)] != ids or there[-len(ids) :] != ids
        assert str(there) in finding.message


@pytest.mark.parametrize("flag", ["lstrip", "rstrip"])
def test_a_tag_that_takes_the_space_beside_it_is_refused(flag: str) -> None:
    found = refused(changed(**{flag: True}))
    assert list(found) == ["<Path>"]
    assert set(str(found["<Path>"].example)) & set(" \n")


def test_a_tag_that_is_no_tag_inside_a_word_is_refused() -> None:
    found = refused(changed(single_word=True))
    assert list(found) == ["<Path>"]


def test_a_tag_of_several_ids_that_stays_whole_passes_with_a_note() -> None:
    """Every character is a token: nothing merges, but anyone can write the tag."""
    tokenizer = without_specials(vocabularies.characters())
    passed, note = check_tags(MULTIVERSE, tokenizer, REMEDY)
    assert (passed.verdict, note.verdict) == (Verdict.OK, Verdict.NOTE)
    assert "1 to 13 ids" in passed.message
    assert "client" in note.message
    assert note.remedy == REMEDY


def test_a_tag_that_begins_another_is_refused_by_name() -> None:
    tokenizer = without_specials(vocabularies.characters())
    tags = {**MULTIVERSE.tags, Tag.PATH_OPEN: "<Path", Tag.PATH_CLOSE: "<Path/>"}
    found = refused(tokenizer, replace(MULTIVERSE, tags=tags))
    assert list(found) == ["<Path"]
    assert "<Path/> begins" in found["<Path"].message


def test_a_tag_of_unknown_characters_is_refused() -> None:
    dialect = replace(MULTIVERSE, tags={**MULTIVERSE.tags, Tag.PATH_OPEN: "«Path»"})
    found = refused(without_specials(vocabularies.characters()), dialect)
    assert list(found) == ["«Path»"]
    assert "unknown" in found["«Path»"].message


def test_a_tag_that_reads_otherwise_when_decoded_is_refused() -> None:
    """A tokenizer that folds capitals has no <Path>."""
    found = refused(kinds.tokenizer("words, folded", "multiverse"))
    assert "<Path>" in found


def test_offsets_are_a_note_for_engines() -> None:
    assert check_offsets(MULTIVERSE).verdict is Verdict.OK
    note = check_offsets(load_dialect("multiverse-qwen"))
    assert note.verdict is Verdict.NOTE
    assert "free positions" in note.message


def test_the_end_must_be_a_token_and_no_tag(bytes_merged: TextTokenizer) -> None:
    end, path = bytes_merged.token_id(EOS), bytes_merged.token_id("<Path>")
    assert end is not None
    assert path is not None
    assert check_eos((end,), MULTIVERSE, bytes_merged).verdict is Verdict.OK
    tag = check_eos((end, path), MULTIVERSE, bytes_merged)
    assert (tag.verdict, tag.tag) == (Verdict.REFUSED, "<Path>")
    for index in (-1, bytes_merged.vocab_size):
        nowhere = check_eos((end, index), MULTIVERSE, bytes_merged)
        assert nowhere.verdict is Verdict.REFUSED
        assert str(index) in nowhere.message


@pytest.mark.parametrize(
    ("tokenizer", "config", "rows", "verdict"),
    [
        (100, 100, 100, Verdict.OK),
        (90, 100, 100, Verdict.OK),
        (101, 100, 100, Verdict.REFUSED),
        (100, 100, 99, Verdict.REFUSED),
        (100, 100, 128, Verdict.REFUSED),
    ],
)
def test_every_token_needs_a_row(tokenizer: int, config: int, rows: int, verdict: Verdict) -> None:
    assert check_sizes(tokenizer, config, {"head": rows}, REMEDY).verdict is verdict


def test_spare_rows_are_counted() -> None:
    assert "10 spare" in check_sizes(90, 100, {}, REMEDY).message
