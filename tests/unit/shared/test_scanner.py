"""Tags in a stream of ids: whole, cut anywhere, and nearly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.dialect import Tag, load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.scanner import Lexeme, TagScanner
from multiverse_shared.tokenizer import TextTokenizer
from tests.unit.shared import vocabularies

DIALECT = load_dialect("multiverse")
TOKENIZER = TextTokenizer(vocabularies.spelled())
SPELLED = Grammar.bind(DIALECT, TOKENIZER)
WHOLE = Grammar.bind(DIALECT, TextTokenizer(vocabularies.characters()))


def scanned(grammar: Grammar, text: str) -> list[Tag | str]:
    """Tags, and the text between them put together."""
    scanner = TagScanner(grammar)
    lexemes: list[Lexeme] = []
    for token in grammar.tokenizer.encode_trusted(text):
        lexemes += scanner.feed(token)
    lexemes += scanner.flush()
    out: list[Tag | str] = []
    for lexeme in lexemes:
        said = grammar.tokenizer.decode(lexeme.ids)
        if lexeme.tag:
            out.append(lexeme.tag)
        elif out and not isinstance(out[-1], Tag):
            out[-1] += said
        else:
            out.append(said)
    return out


@pytest.mark.parametrize("grammar", [WHOLE, SPELLED], ids=["one id", "many ids"])
def test_tags_are_found_between_text(grammar: Grammar) -> None:
    assert scanned(grammar, "a<Path>b</Path></Goal>c<") == [
        *("a", Tag.PATH_OPEN, "b", Tag.PATH_CLOSE, Tag.PLAN_CLOSE, "c<"),
    ]


@pytest.mark.parametrize(
    "nearly", ["<Path", "<path>", "< Path>", "<Path >", "</Path", "<</Path", "<Pa<Goa", "<\nPath>"]
)
def test_another_spelling_is_text(nearly: str) -> None:
    assert scanned(SPELLED, f"a{nearly}b") == [f"a{nearly}b"]


def test_a_tag_is_found_behind_what_looked_like_one() -> None:
    assert scanned(SPELLED, "<Pa<Path>") == ["<Pa", Tag.PATH_OPEN]
    assert scanned(SPELLED, "<<Path>>") == ["<", Tag.PATH_OPEN, ">"]


def test_a_tag_of_one_id_never_waits() -> None:
    scanner = TagScanner(WHOLE)
    for token in WHOLE.tokenizer.encode_trusted("a<Path>b</Path>"):
        assert [lexeme.ids for lexeme in scanner.feed(token)] == [(token,)]
        assert scanner.pending == ()


@pytest.mark.parametrize("tag", list(DIALECT.tags))
def test_a_tag_cut_at_any_id_is_pending_until_it_is_whole(tag: Tag) -> None:
    ids = SPELLED.tags[tag]
    for cut in range(1, len(ids)):
        scanner = TagScanner(SPELLED)
        assert [lexeme for token in ids[:cut] for lexeme in scanner.feed(token)] == []
        assert scanner.pending == ids[:cut]
        whole = replace(scanner)
        assert [lexeme for token in ids[cut:] for lexeme in whole.feed(token)] == [Lexeme(ids, tag)]
        assert scanner.flush() == [Lexeme(ids[:cut])]
        assert scanner.flush() == []


def test_the_longer_of_two_tags_that_end_alike_wins() -> None:
    tags = {**DIALECT.tags, Tag.PATH_CLOSE: "/>", Tag.JOIN_CLOSE: "<end/>"}
    grammar = Grammar.bind(replace(DIALECT, tags=tags), TOKENIZER)
    assert scanned(grammar, "a/>b<end/>c<end />") == [
        *("a", Tag.PATH_CLOSE, "b", Tag.JOIN_CLOSE, "c<end ", Tag.PATH_CLOSE),
    ]


PIECES = st.lists(st.sampled_from([*DIALECT.tags.values(), *"</>PathGol", "x"]), max_size=30)


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_every_id_comes_out_once_and_tags_are_those_of_a_search_in_the_text(
    pieces: list[str],
) -> None:
    text = "".join(pieces)
    found = scanned(SPELLED, text)
    assert "".join(DIALECT.tags[p] if isinstance(p, Tag) else p for p in found) == text
    at, expected = 0, []
    spellings = {spelling: tag for tag, spelling in DIALECT.tags.items()}
    while at < len(text):
        tag = next((tag for s, tag in spellings.items() if text.startswith(s, at)), None)
        expected += [tag] if tag else []
        at += len(DIALECT.tags[tag]) if tag else 1
    assert [part for part in found if isinstance(part, Tag)] == expected
