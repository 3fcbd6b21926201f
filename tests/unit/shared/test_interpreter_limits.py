"""Limits and budgets shape the answer; they never fail it."""

from __future__ import annotations

from typing import Any

import pytest

from multiverse_shared.effects import Finished, Forked, PathEnded, Reason
from multiverse_shared.limits import Budget, Limits
from multiverse_shared.tree import Block
from multiverse_shared.usage import usage
from tests.unit.shared.stage import Stage

HEADER = 3  # <Path>, one digit, a colon
END = 1  # </Path>
PLAN = "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
PLAN_TOKENS = 13


def outlines(*labels: int) -> str:
    return "".join(f"<Outline>{label}:o</Outline>" for label in labels)


# -- the plan --------------------------------------------------------------------------------


def test_a_plan_is_closed_at_its_last_outline_and_the_rest_is_not_decoded(stage: Stage) -> None:
    root = f"<Parallel><Goal>{outlines(1, 2)}"
    runaway = {"0": root + outlines(*range(3, 10)), "0.1": "x</Path>", "0.2": "y</Path>"}
    record = stage.perform(runaway, Limits(max_paths=2))
    assert stage.answer(record)[:4] == [
        root,
        "«</Goal>»",
        [["«<Path>1:»", "x</Path>"], ["«<Path>2:»", "y</Path>"]],
        "«<Conclusion>»",
    ]
    assert record.aborted == ["0#1"]
    assert record.starts["0#2"].draws == len(stage.ids(root))


def test_a_plan_that_is_too_long_is_closed_without_its_open_outline(stage: Stage) -> None:
    plan = f"<Parallel><Goal>{outlines(1)}<Outline>2:abc"
    limits = Limits(max_goal_tokens=len(stage.ids(plan)) - 2)
    record = stage.perform({"0": plan + "defg", "0.1": "x</Path>"}, limits)
    assert stage.answer(record)[:3] == [
        plan,
        "«</Outline></Goal>»",
        [["«<Path>1:»", "x</Path>"]],
    ]
    assert record.aborted == ["0#1"]


def test_a_plan_that_is_too_long_between_outlines_is_closed_there(stage: Stage) -> None:
    record = stage.perform({"0": "<Parallel><Goal>abcd"}, Limits(max_goal_tokens=3))
    assert stage.answer(record) == ["<Parallel><Goal>abc", "«</Goal><Conclusion>»", "d"]


def test_a_plan_without_outlines_forks_nothing_and_the_answer_goes_on(stage: Stage) -> None:
    record = stage.perform({"0": "<Parallel><Goal>hm</Goal>so</Conclusion></Parallel>"})
    assert stage.answer(record) == [
        "<Parallel><Goal>hm</Goal>",
        "«<Conclusion>»",
        "so</Conclusion></Parallel>",
    ]
    assert record.of_type(Forked) == []
    assert record.starts["0#2"].joins == ("0#1",)


# -- who may fork ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [Limits(max_depth=0), Limits(max_blocks=0), Limits(max_total_tokens=12)]
)
def test_a_root_that_may_not_fork_has_the_opening_tags_banned(stage: Stage, limits: Limits) -> None:
    assert_bans_forks(stage, stage.perform({"0": "x"}, limits).starts["0#1"])


def test_nothing_forks_when_parallel_thinking_is_off(stage: Stage) -> None:
    record = stage.perform({"0": "x</Goal>y"}, may_fork=False)
    assert_bans_forks(stage, record.starts["0#1"])
    assert list(record.starts) == ["0#1"], "a closing tag does not even stop the branch"


def test_a_path_at_the_greatest_depth_may_not_fork_but_its_parent_may(stage: Stage) -> None:
    paths = {
        "0": PLAN,
        "0.1": f"{PLAN}z</Conclusion></Parallel></Path>",
        "0.1.1": "q</Goal></Path>",
    }
    starts = stage.perform(paths, Limits(max_depth=2)).starts
    assert starts["0.1#1"].banned == ()
    assert_bans_forks(stage, starts["0.1.1#1"])
    assert "0.1.1#2" not in starts


def test_blocks_are_shared_among_the_paths_and_come_back_at_the_join(stage: Stage) -> None:
    paths = {"0": PLAN, "0.1": "</Path>", "0.2": "</Path>"}
    assert_bans_forks(stage, stage.perform(paths, Limits(max_blocks=2)).starts["0.1#1"])
    starts = stage.perform(paths, Limits(max_blocks=3)).starts
    assert starts["0.1#1"].banned == ()
    again = stage.perform({**paths, "0": PLAN + "so"}, Limits(max_blocks=2)).starts["0#2"]
    assert again.banned == ()
    assert_bans_forks(stage, stage.perform(paths, Limits(max_blocks=1)).starts["0#2"])


def test_blocks_inside_the_paths_count_for_the_whole_answer(stage: Stage) -> None:
    one = "<Parallel><Goal><Outline>1:a</Outline></Goal>"
    paths = {"0": one, "0.1": f"{one}</Conclusion></Parallel></Path>", "0.1.1": "</Path>"}
    assert_bans_forks(stage, stage.perform(paths, Limits(max_blocks=2)).starts["0#2"])
    assert stage.perform(paths, Limits(max_blocks=3)).starts["0#2"].banned == ()


def assert_bans_forks(stage: Stage, start: Any) -> None:
    assert set(start.banned) == {(token,) for token in stage.ids("<Parallel><Goal>")}
    assert stage.ids("</Goal>") not in [stop.ids for stop in start.stops]


def test_a_fork_that_cannot_be_paid_does_not_happen_and_the_answer_goes_on(stage: Stage) -> None:
    plan = f"<Parallel><Goal>{outlines(1, 2, 3, 4, 5)}</Goal>"
    record = stage.perform({"0": plan + "so"}, Limits(max_total_tokens=45))
    assert stage.answer(record) == [plan, "«<Conclusion>»", "so"]
    assert record.of_type(Forked) == []
    assert record.events[-1] == Finished(Reason.STOP)


# -- budgets ---------------------------------------------------------------------------------


def test_each_path_may_write_its_share_of_what_the_fork_left(stage: Stage) -> None:
    starts = stage.perform({"0": PLAN}, Limits(max_total_tokens=100)).starts
    share = (100 - PLAN_TOKENS - 25) // 2  # a quarter is kept back
    assert starts["0.1#1"].max_tokens == starts["0.2#1"].max_tokens == share - HEADER - END


def test_the_critical_budget_bounds_a_path_as_a_whole(stage: Stage) -> None:
    limits = Limits(max_total_tokens=1000, max_critical_tokens=60)
    starts = stage.perform({"0": PLAN}, limits).starts
    assert starts["0#1"].max_tokens == 60
    assert starts["0.1#1"].max_tokens == 60 - PLAN_TOKENS - 15 - HEADER - END


def test_what_the_paths_did_not_use_comes_back_at_the_join(stage: Stage) -> None:
    paths = {"0": PLAN, "0.1": "x</Path>", "0.2": "yy</Path>"}
    starts = stage.perform(paths, Limits(max_total_tokens=100)).starts
    used = PLAN_TOKENS + (HEADER + 2) + (HEADER + 3) + 1
    assert starts["0#2"].max_tokens == 100 - used
    limits = Limits(max_total_tokens=100, max_critical_tokens=60)
    critical = PLAN_TOKENS + (HEADER + 3) + 1
    assert stage.perform(paths, limits).starts["0#2"].max_tokens == 60 - critical


def test_paths_that_write_all_they_may_leave_the_reserve_for_the_conclusion(stage: Stage) -> None:
    record = stage.perform({"0": PLAN + "c" * 99}, Limits(max_total_tokens=100), end="a")
    assert record.starts["0#2"].max_tokens == 100 // 4 - 1  # the join header is paid from it
    assert usage(record.context, 1).generated == 100
    assert record.events[-1] == Finished(Reason.LENGTH)


# -- ends ------------------------------------------------------------------------------------


def test_an_end_of_sequence_in_a_path_is_dropped_and_closes_only_the_path(stage: Stage) -> None:
    record = stage.perform({"0": PLAN + "so", "0.1": "the whole answer", "0.2": "y</Path>"})
    assert stage.answer(record)[1:] == [
        [["«<Path>1:»", "the whole answer", "«</Path>»"], ["«<Path>2:»", "y</Path>"]],
        "«<Conclusion>»",
        "so",
    ]
    assert record.of_type(PathEnded) == [
        PathEnded("0.1", Reason.EOS, forced=True),
        PathEnded("0.2", Reason.STOP, forced=False),
    ]


def test_a_path_that_reaches_its_cap_is_closed_by_the_system(stage: Stage) -> None:
    paths = {"0": PLAN + "so", "0.1": "a" * 50, "0.2": "y</Path>"}
    record = stage.perform(paths, Limits(max_path_tokens=12))
    capped = ["«<Path>1:»", "a" * (12 - HEADER - END), "«</Path>»"]
    assert stage.answer(record)[1][0] == capped
    assert record.of_type(PathEnded)[0] == PathEnded("0.1", Reason.LENGTH, forced=True)
    assert stage.answer(record)[2:] == ["«<Conclusion>»", "so"]


def test_a_path_that_closes_itself_with_its_last_token_is_not_forced(stage: Stage) -> None:
    paths = {"0": PLAN, "0.1": "a" * 7 + "</Path>", "0.2": "</Path>"}
    record = stage.perform(paths, Limits(max_path_tokens=12))
    assert record.of_type(PathEnded)[0] == PathEnded("0.1", Reason.STOP, forced=False)


def test_a_path_that_ends_inside_its_plan_is_closed_all_the_same(stage: Stage) -> None:
    paths = {"0": PLAN, "0.1": "<Parallel><Goal><Outline>1:never", "0.2": "y</Path>"}
    record = stage.perform(paths)
    assert stage.answer(record)[1][0] == ["«<Path>1:»", paths["0.1"], "«</Path>»"]


def test_an_answer_that_uses_up_its_tokens_ends_with_length(stage: Stage) -> None:
    record = stage.perform({"0": "a" * 50}, Limits(max_total_tokens=20))
    assert stage.answer(record) == ["a" * 20]
    assert record.events[-1] == Finished(Reason.LENGTH)
    assert record.interpreter.finished_reason is Reason.LENGTH


def test_an_answer_that_ends_with_its_last_token_stops_by_itself(stage: Stage) -> None:
    record = stage.perform({"0": "a" * 19}, Limits(max_total_tokens=20))
    assert record.events[-1] == Finished(Reason.STOP)


def test_a_plan_that_closes_with_the_last_tokens_ends_the_answer(stage: Stage) -> None:
    limits = Limits(max_total_tokens=30)
    record = stage.perform({"0": "a" * (29 - PLAN_TOKENS) + PLAN}, limits)
    assert record.of_type(Forked) == []
    assert record.events[-1] == Finished(Reason.LENGTH)


@pytest.mark.parametrize(
    "limits",
    [Limits(max_total_tokens=0), Limits(max_critical_tokens=0)],
    ids=["total", "critical"],
)
def test_an_answer_without_a_budget_ends_before_it_begins(stage: Stage, limits: Limits) -> None:
    record = stage.perform({"0": "a"}, limits)
    assert record.starts == {}
    assert record.events == [Finished(Reason.LENGTH)]


# -- what templates cost ---------------------------------------------------------------------


def test_a_long_label_does_not_make_the_answer_longer_than_it_may_be(stage: Stage) -> None:
    label = "7" * 40
    root = f"<Parallel><Goal><Outline>{label}:a</Outline></Goal>"
    for total in range(len(stage.ids(root)) + 8, 120, 4):
        record = stage.perform({"0": root}, Limits(max_total_tokens=total), end="a")
        counts = usage(record.context, 1)
        assert max(counts.generated, counts.critical) <= total


def test_a_path_that_forks_keeps_enough_back_for_its_own_end() -> None:
    stage = Stage.build(path_tail=" and here this path ends")
    plan = "<Parallel><Goal><Outline>1:a</Outline></Goal>"
    for cap in range(44, 80, 3):
        limits = Limits(max_path_tokens=cap)
        record = stage.perform({"0": plan, "0.1": plan}, limits, end="a")
        block = record.context[2]
        assert isinstance(block, Block)
        assert usage(block.paths[0]).generated <= cap


def test_the_reserve_is_a_quarter_of_the_tighter_budget(stage: Stage) -> None:
    limits = Limits(max_total_tokens=400, max_critical_tokens=100)
    start = stage.perform({"0": PLAN}, limits).starts["0.1#1"]
    reserve = Budget.of(400, 100, 1).reserve
    assert start.max_tokens == 100 - PLAN_TOKENS - reserve - HEADER - END
