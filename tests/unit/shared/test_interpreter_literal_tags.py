"""Tags out of place are text, and the branch goes on."""

from __future__ import annotations

import pytest

from multiverse_shared.dialect import Tag, load_dialect
from multiverse_shared.effects import Forked, Kind, PathEnded, Reason, Tokens
from multiverse_shared.limits import Limits
from tests.unit.shared.stage import Stage

TAGS = tuple(load_dialect("multiverse").tags)
OPENERS = {Tag.BLOCK_OPEN, Tag.PLAN_OPEN}
PLAN = "<Parallel><Goal><Outline>1:a</Outline></Goal>"


@pytest.mark.parametrize("tag", [tag for tag in TAGS if tag not in OPENERS])
def test_a_tag_out_of_place_in_the_root_is_text(stage: Stage, tag: Tag) -> None:
    text = f"a{stage.grammar.dialect.tags[tag]}b"
    record = stage.perform({"0": text})
    assert stage.answer(record) == [text]
    assert record.said("0", Kind.TEXT) == stage.ids(text)


@pytest.mark.parametrize("tag", [tag for tag in TAGS if tag not in {*OPENERS, Tag.PATH_CLOSE}])
def test_a_tag_out_of_place_in_a_path_is_text(stage: Stage, tag: Tag) -> None:
    spelled = stage.grammar.dialect.tags[tag]
    record = stage.perform({"0": PLAN, "0.1": f"a{spelled}b</Path>"})
    assert stage.answer(record)[1] == [["«<Path>1:»", f"a{spelled}b</Path>"]]
    assert record.said("0.1", Kind.TEXT) == stage.ids(f"a{spelled}b")
    assert record.of_type(PathEnded) == [PathEnded("0.1", Reason.STOP, forced=False)]


def test_a_branch_that_stopped_at_a_tag_out_of_place_is_started_again_behind_it(
    stage: Stage,
) -> None:
    record = stage.perform({"0": f"ab</Goal>c{PLAN}", "0.1": "x</Path>"})
    first, again = record.starts["0#1"], record.starts["0#2"]
    assert stage.told(again.context) == ["Q?", "ab</Goal>"]
    assert again.draws == 3
    assert again.joins == ("0#1",)
    assert again.stops == first.stops
    assert again.max_tokens == first.max_tokens - 3


def test_a_closing_path_tag_inside_a_plan_of_a_path_does_not_end_the_path(stage: Stage) -> None:
    plan = "<Parallel></Path><Goal></Path><Outline>1:</Path></Outline></Goal>"
    record = stage.perform(
        {"0": PLAN, "0.1": f"{plan}z</Path></Conclusion></Parallel></Path>", "0.1.1": "y</Path>"}
    )
    path = stage.answer(record)[1][0]
    assert path == [
        "«<Path>1:»",
        plan,
        [["«<Path>1:»", "y</Path>"]],
        "«<Conclusion>»",
        "z</Path></Conclusion></Parallel></Path>",
    ]


def test_a_path_may_end_without_the_end_of_its_last_block(stage: Stage) -> None:
    record = stage.perform({"0": PLAN, "0.1": f"{PLAN}z</Conclusion></Path>", "0.1.1": "y</Path>"})
    assert PathEnded("0.1", Reason.STOP, forced=False) in record.of_type(PathEnded)
    assert stage.answer(record)[1][0][-1] == "z</Conclusion></Path>"


def test_a_plan_without_its_block_forks_all_the_same(stage: Stage) -> None:
    root = PLAN.removeprefix("<Parallel>")
    record = stage.perform({"0": f"{root}so</Conclusion></Parallel>", "0.1": "x</Path>"})
    assert len(record.of_type(Forked)) == 1
    assert stage.answer(record)[3] == "so</Conclusion></Parallel>"


def test_outlines_of_an_earlier_plan_are_not_forked_again(stage: Stage) -> None:
    root = f"{PLAN}so</Goal> and <Outline>1:a</Outline></Goal></Conclusion></Parallel>"
    record = stage.perform({"0": root, "0.1": "x</Path>"})
    assert len(record.of_type(Forked)) == 1
    assert stage.answer(record)[3] == root.removeprefix(PLAN)


def test_a_tag_that_is_a_word_of_an_outline_belongs_to_it(stage: Stage) -> None:
    root = "<Parallel><Goal><Outline>1:<Path> and </Goal></Outline></Goal>"
    record = stage.perform({"0": root, "0.1": "x</Path>"})
    (fork,) = record.of_type(Forked)
    assert isinstance(fork, Forked)
    assert fork.outlines == (stage.ids("1:<Path> and </Goal>"),)


def test_what_was_told_in_parts_is_told_as_the_same_kinds(stage: Stage) -> None:
    record = stage.perform({"0": "a</Path>b"})
    assert record.by_path()["0"][0] == Tokens("0", stage.ids("a</Path>b"), Kind.TEXT)


def test_a_plan_that_was_interrupted_by_a_tag_out_of_place_can_still_be_closed(
    stage: Stage,
) -> None:
    # Behind the first </Goal> too little is left for a fork, but the plan is open.
    root = f"<Parallel><Goal><Outline>1:{'a' * 12}</Goal></Outline></Goal>so"
    record = stage.perform({"0": root}, Limits(max_total_tokens=25))
    plan, rest = root.removesuffix("so"), "so"
    assert stage.answer(record) == [plan, "«<Conclusion>»", rest]
