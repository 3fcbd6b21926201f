"""Text of ids as they come: no character is cut, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiverse_router.detokenizer import Detokenizer
from tests.unit.router.served import TAGS, tokenizer

BROKEN = "\ufffd"
HARD = [
    "👩‍👩‍👧‍👦 family, 👍🏽 skin, 🏳️‍🌈 flag, 🇩🇪",
    "e\u0301 o\u0308\u0323 combining, ก็ Thai, नमस्ते",
    "日本語、한국어, עברית, العربية",
    "\U0001f9d1\u200d\U0001f680 and \U00010348 and \u00ad\u200b",
]
_texts = st.lists(st.sampled_from(HARD) | st.text(max_size=6), max_size=4).map("".join)


def told(pieces: Iterable[tuple[int, ...]]) -> list[str]:
    detokenizer = Detokenizer(tokenizer())
    return [*(detokenizer.add(piece) for piece in pieces), detokenizer.flush()]


@pytest.mark.parametrize("text", HARD)
def test_one_id_at_a_time_gives_the_text_without_a_broken_character(text: str) -> None:
    ids = tokenizer().encode(text)
    assert len(ids) > len(text), "the test needs characters that are cut by id borders"
    parts = told((index,) for index in ids)
    assert "".join(parts) == text
    assert not any(BROKEN in part for part in parts)


@pytest.mark.parametrize("text", HARD)
def test_cut_in_two_at_any_id_border_the_text_is_whole(text: str) -> None:
    ids = tuple(tokenizer().encode(text))
    for border in range(len(ids) + 1):
        parts = told((ids[:border], ids[border:]))
        assert "".join(parts) == text
        assert not any(BROKEN in part for part in parts)


@settings(max_examples=80, deadline=None)
@given(text=_texts, data=st.data())
def test_in_pieces_of_any_size_the_text_is_whole(text: str, data: st.DataObject) -> None:
    ids = tuple(tokenizer().encode(text))
    borders = sorted(data.draw(st.sets(st.integers(0, len(ids)), max_size=8)) | {0, len(ids)})
    pieces = [ids[start:end] for start, end in pairwise(borders)]
    parts = told(pieces)
    assert "".join(parts) == text
    assert BROKEN in text or not any(BROKEN in part for part in parts)


@settings(max_examples=80, deadline=None)
@given(ids=st.lists(st.integers(0, tokenizer().vocab_size - 1), max_size=24))
@example(ids=[106, 106, 106, 138, 106])
def test_any_ids_at_all_give_what_they_decode_to(ids: list[int]) -> None:
    assert "".join(told((index,) for index in ids)) == tokenizer().decode(ids)


def test_an_incomplete_character_is_held_back_until_it_is_asked_for() -> None:
    first, *rest = tokenizer().encode("\U0001f9d1")
    assert rest
    detokenizer = Detokenizer(tokenizer())
    assert detokenizer.add((first,)) == ""
    assert detokenizer.flush() == BROKEN
    assert detokenizer.flush() == ""


def test_a_tag_between_two_texts_is_told_as_it_is_spelled() -> None:
    before, after = tokenizer().encode("é1"), tokenizer().encode("é2")
    tag = tokenizer().token_id(TAGS[0])
    assert tag is not None
    assert "".join(told((index,) for index in (*before, tag, *after))) == f"é1{TAGS[0]}é2"


def test_a_run_of_bytes_that_are_no_text_is_told_as_it_comes() -> None:
    """Held back to its end, each further id would decode all of it again."""
    broken = tokenizer().encode("\U0001f9d1")[-1]
    assert tokenizer().decode([broken]) == BROKEN
    detokenizer = Detokenizer(tokenizer())
    said = "".join(detokenizer.add((broken,)) for _ in range(200))
    assert len(said) > 150
