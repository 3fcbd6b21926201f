"""Whatever a model writes, and in whatever order its branches report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from multiverse_shared.effects import PathEnded
from multiverse_shared.usage import usage
from tests.unit.shared.budget_audit import Audit
from tests.unit.shared.fake_engine import Record, Schedule
from tests.unit.shared.random_answers import Case, assert_within_limits, cases, small_cases
from tests.unit.shared.stage import Stage

many = settings(max_examples=150, deadline=None)


@many
@given(cases)
def test_an_answer_ends_and_stays_within_all_limits(case: Case) -> None:
    assert_within_limits(case.run(), case.limits, may_fork=case.may_fork)


@many
@given(cases)
def test_every_fork_divides_the_budget_and_every_conclusion_has_its_reserve(case: Case) -> None:
    event(f"joins: {min(5, Audit(case.run(), case.limits).joins)}")


@settings(max_examples=80, deadline=None)
@given(cases, st.integers(0, 1 << 32))
def test_an_answer_does_not_depend_on_the_order_in_which_its_branches_report(
    case: Case, seed: int
) -> None:
    first = case.run()
    few = 1 + seed % 3
    for schedule in (
        Schedule.backwards(),
        Schedule.shuffled(seed),
        replace(Schedule.shuffled(seed), most_live=few),
        replace(Schedule.backwards(), most_live=few),
    ):
        assert_same(case.run(schedule), first)


@given(small_cases)
@settings(max_examples=12, deadline=None)
def test_an_answer_is_the_same_in_every_order_in_which_its_branches_can_finish(
    case: Case,
) -> None:
    orders = [case.run(schedule) for schedule in every_order(60)]
    event(f"orders: {min(10, len(orders))}")
    for other in orders[1:]:
        assert_same(other, orders[0])


def test_three_paths_can_finish_in_six_orders(stage: Stage) -> None:
    outlines = "".join(f"<Outline>{n}:a</Outline>" for n in (1, 2, 3))
    paths = {"0": f"<Parallel><Goal>{outlines}</Goal>", "0.1": "a</Path>", "0.2": "</Path>"}
    ends = [
        tuple(event.path for event in stage.perform(paths, schedule=order).of_type(PathEnded))
        for order in every_order(100)
    ]
    assert sorted(ends) == sorted(permutations(("0.1", "0.2", "0.3")))


def assert_same(one: Record, other: Record) -> None:
    """Tree, usage, finish reason, what each path said and what was started."""
    assert one.context == other.context
    assert usage(one.context, 1) == usage(other.context, 1)
    assert one.interpreter.finished_reason is other.interpreter.finished_reason
    assert one.by_path() == other.by_path()
    assert one.starts == other.starts
    assert sorted(one.aborted) == sorted(other.aborted)
    assert one.interpreter.irregular == other.interpreter.irregular


def every_order(at_most: int) -> Iterator[Schedule]:
    """Schedules that end branches one after another, in each order there is (or the first few).

    Each must be played before the next one is asked for.
    """
    choices: list[int] = []
    for _ in range(at_most):
        turns = _Turns(choices)
        yield Schedule(turns.pick, lambda: 1 << 30)
        taken = turns.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        choices = [choice for choice, _ in taken[:-1]] + [taken[-1][0] + 1]


@dataclass(slots=True)
class _Turns:
    """Plays `choices`, then always the first; `taken` has each choice and how many there were."""

    choices: list[int]
    taken: list[tuple[int, int]] = field(default_factory=list)
    current: str = ""

    def pick(self, live: Sequence[str]) -> str:
        if self.current not in live:
            turn = len(self.taken)
            choice = self.choices[turn] if turn < len(self.choices) else 0
            self.taken.append((choice, len(live)))
            self.current = live[choice]
        return self.current
