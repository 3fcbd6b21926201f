"""Cutting reasoning into sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_curator.sentences import split

PIECES = st.sampled_from(
    [
        *("a", "B", " ", ".", "! ", "? ", "\n", "\n\n", "。", "；", ";", "$", "$$", "\\[", "\\]"),
        *("```", "\\(", "\\)", "&", "<", "3.14", "e.g. ", "中文", "\u2028", "<Path>"),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_character_is_lost(text: str) -> None:
    assert "".join(split(text)) == text


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_sentence_is_blank_unless_the_text_is(text: str) -> None:
    if text.strip():
        assert all(sentence.strip() for sentence in split(text))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is 3.14. So be it.", ["It is 3.14. ", "So be it."]),
        ("We get $a. b$ now. Then c.", ["We get $a. b$ now. ", "Then c."]),
        ("\\[\nx = 1.\ny < 2 & 3\n\\]\nNext.", ["\\[\nx = 1.\ny < 2 & 3\n\\]\n", "Next."]),
        ("```python\na = 1\nb = 2\n```\nDone.", ["```python\na = 1\nb = 2\n```\n", "Done."]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
        ("a:1+2=3;b:4;", ["a:1+2=3;", "b:4;"]),
        ("", []),
    ],
)
def test_formulas_and_code_stay_whole(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


def test_formulas_that_never_end_cost_no_more_than_they_are_long() -> None:
    text = "\\[ x $ y ``` " * 20000
    assert "".join(split(text)) == text
