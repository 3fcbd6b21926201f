"""Groups of steps: which are allowed, and the tree they make."""

from __future__ import annotations

import pytest

from multiverse_curator.answers import (
    Dependency,
    Groups,
    Label,
    ParallelGroup,
    Part,
    Refill,
    Step,
    Summary,
)
from multiverse_curator.draft import DraftFork, fill, linear
from multiverse_curator.faults import Fault, Stage
from multiverse_curator.structure import Fork, build

SUMMARY = Summary(
    steps=[
        Step(summary="read"),
        Step(summary="left", substeps=["a", "b", "c"]),
        Step(summary="right"),
        Step(summary="end"),
    ]
)


def groups(*members: list[str], needs: dict[str, list[str]] | None = None) -> Groups:
    edges = [Dependency(step=step, needs=list(on)) for step, on in (needs or {}).items()]
    found = [ParallelGroup(steps=m, label=Label.COLLECTIVE, reason="apart") for m in members]
    return Groups(dependencies=edges, groups=found)


def test_groups_fold_into_forks_at_both_levels() -> None:
    inner = Fork(Label.COLLECTIVE, (("2.1",), ("2.2",)))
    outer = Fork(Label.COLLECTIVE, (("2", inner, "2.3"), ("3",)))
    assert build(SUMMARY, groups(["2", "3"], ["2.1", "2.2"])) == ("1", outer, "4")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (groups(["2"]), "two or more adjacent"),
        (groups(["1", "3"]), "two or more adjacent"),
        (groups(["3", "2"]), "two or more adjacent"),
        (groups(["1", "2.1"]), "two or more adjacent"),
        (groups(["8", "9"]), "not in the summary"),
        (groups(["2", "3"], ["3", "4"]), "shares a step"),
        (groups(["2", "3"], needs={"3": ["2"]}), "depends on step 2"),
        (groups(["2", "3"], needs={"3": ["2.2"]}), "depends on step 2"),
        (groups(["2.1", "2.2"], needs={"2.2": ["1"], "1": ["2.1"]}), "depends on step 2.1"),
        (groups(["2", "3"], needs={"2.3": ["4"], "4": ["3"]}), "step 2 of group"),
        (groups(needs={"7": ["1"]}), "not in the summary"),
    ],
)
def test_a_group_that_is_not_allowed_goes_back_with_the_reason(answer: Groups, words: str) -> None:
    with pytest.raises(Fault, match=words) as caught:
        build(SUMMARY, answer)
    assert caught.value.stage is Stage.GROUPS


def test_steps_that_both_need_a_third_may_be_parallel() -> None:
    assert build(SUMMARY, groups(["2", "3"], needs={"2": ["1"], "3": ["1"]}))


def test_sentences_fill_the_structure_in_order() -> None:
    skeleton = build(SUMMARY, groups(["2", "3"]))
    parts = [("1", 1, 1), ("2", 2, 2), ("2.1", 3, 3), ("2.2", 4, 4), ("3", 5, 6), ("4", 7, 7)]
    refill = Refill(parts=[Part(step=step, first=a, last=b) for step, a, b in parts])
    draft = fill(skeleton, refill, list("abcdefg"))
    assert draft == ("a", DraftFork(Label.COLLECTIVE, (("bcd",), ("ef",))), "g")
    assert linear(draft) == "abcdefg"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Part(step="9", first=1, last=1), "not in the structure"),
        (Part(step="1", first=3, last=2), "not within 1 to 7"),
        (Part(step="1", first=7, last=8), "not within 1 to 7"),
        (Part(step="1", first=1, last=7), "has no sentences"),
    ],
)
def test_sentences_that_are_not_there_go_back(part: Part, words: str) -> None:
    with pytest.raises(Fault, match=words) as caught:
        fill(build(SUMMARY, groups(["2", "3"])), Refill(parts=[part]), list("abcdefg"))
    assert caught.value.stage is Stage.REFILL
