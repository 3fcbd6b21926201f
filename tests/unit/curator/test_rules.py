"""What the teacher without a model finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from multiverse_curator.answers import Label
from multiverse_curator.sentences import split
from multiverse_curator.teachers.rules.finder import find

LONG = "and so on and so forth, with many words that say what is tried, one after the other, " * 3


def found(text: str, prompt: str = "") -> list[tuple[str, int, Label]]:
    return [(run.kind, len(run.parts), run.label) for run in find(prompt, split(text))]


@pytest.mark.parametrize(
    ("text", "kind", "parts", "label"),
    [
        ("Case 1: n is even. Fine.\nCase 2: n is odd. Bad.\n", "case", 2, Label.COLLECTIVE),
        ("**Case I**: up.\n**Case II**: down.\n**Case III**: off.", "case", 3, Label.COLLECTIVE),
        ("情况一：n为偶数。\n情况二：n为奇数。\n", "case", 2, Label.COLLECTIVE),
        ("If n is even, it ends. If n is odd, it grows.", "branch", 2, Label.COLLECTIVE),
        ("For x = 5, it is 11.\nFor x = 6, it is 13.\n", "value", 2, Label.COLLECTIVE),
        ("First term: 3 * 5 = 15\nSecond term: 4 * 6 = 24\n", "ordinal", 2, Label.COLLECTIVE),
        ("30 * 41 = 1230\n50 * 21 = 1050\n", "repeated", 2, Label.COLLECTIVE),
        ("a:7+5=12;b:4+9=13;c:1+1=2;", "letter", 3, Label.COLLECTIVE),
        ("Method 1: draw it.\nMethod 2: compute it.\n", "method", 2, Label.SELECTIVE),
        (
            f"Start by squaring {LONG}.\nAlternatively, take roots {LONG}.\n",
            "alternative",
            2,
            Label.SELECTIVE,
        ),
    ],
)
def test_what_shows_by_form_is_found(text: str, kind: str, parts: int, label: Label) -> None:
    assert found(text) == [(kind, parts, label)]


@pytest.mark.parametrize(
    "text",
    [
        "Case 1: x = 17. Then y = 34.\nCase 2: take the 34 and halve it.\n",  # needs case 1
        "Case 1: n is even.\nCase 3: n is odd.\n",
        "Case 1: n is even. As in the other case, fine.\n",
        "Case 1: it holds.\nCase 2: as in case 1, it holds.\n",
        "12 + 5 = 17\n17 + 5 = 22\n",  # a chain
        "Step 1: go.\nStep 2: go on.\n",
        "It is so. Alternatively, not.",
        "Just one sentence.",
        "",
    ],
)
def test_what_depends_or_stands_alone_is_left(text: str) -> None:
    assert found(text) == []


def test_parts_inside_parts_are_found() -> None:
    half = "The side counts.\nFirst term: 13 * {0} = {1}\nSecond term: 14 * {0} = {2}\nSo be it.\n"
    text = "Case 1: left. " + half.format(2, 26, 28) + "Case 2: right. " + half.format(3, 39, 42)
    [run] = find("13 14 2 3", split(text))
    assert [part.inner and len(part.inner.parts) for part in run.parts] == [2, 2]


def test_a_dependent_part_ends_the_run_before_it() -> None:
    text = "For x = 5, it is 11.\nFor x = 6, it is 13.\nFor x = 7, it is 13 + 2 = 15.\n"
    assert found(text) == [("value", 2, Label.COLLECTIVE)]
