"""Whatever a model writes, and in whatever order its branches report."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.effects import Finished
from multiverse_shared.tree import Block, count
from multiverse_shared.usage import usage
from tests.unit.shared.fake_engine import Schedule
from tests.unit.shared.random_answers import Case, cases, paths_of

many = settings(max_examples=300, deadline=None)


@many
@given(cases)
def test_an_answer_ends_and_stays_within_all_limits(case: Case) -> None:
    record, limits = case.run(), case.limits
    counts = usage(record.context, 1)
    critical = limits.max_critical_tokens
    assert counts.generated <= limits.max_total_tokens
    assert counts.critical <= (limits.max_total_tokens if critical is None else critical)
    blocks = 0
    for path, items in paths_of(record.context[1:]):
        for block in (item for item in items if isinstance(item, Block)):
            blocks += 1
            assert block.closed
            assert 1 <= len(block.paths) <= limits.max_paths
            assert path.count(".") < limits.max_depth
            assert all(count(inner) <= limits.max_path_tokens for inner in block.paths)
    assert blocks <= (limits.max_blocks if case.may_fork else 0)
    assert len(record.of_type(Finished)) == 1


@many
@given(cases, st.integers(0, 1 << 32))
def test_an_answer_does_not_depend_on_the_order_in_which_its_branches_report(
    case: Case, seed: int
) -> None:
    first = case.run()
    for schedule in (Schedule.backwards(), Schedule.shuffled(seed)):
        other = case.run(schedule)
        assert other.context == first.context
        assert other.by_path() == first.by_path()
        assert other.starts == first.starts
        assert sorted(other.aborted) == sorted(first.aborted)
