"""Budget arithmetic: what is spent, kept back and shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.limits import MAX_RESERVE, Budget, Limits

_budgets = st.builds(
    lambda total, critical, blocks, spent: Budget.of(total, critical, blocks).spend(spent),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.integers(0, 64),
    st.integers(0, 5000),
)


@pytest.mark.parametrize(
    ("total", "critical", "reserve"),
    [(100, 100, 25), (100, 40, 10), (40, 100, 10), (3, 3, 0), (2048, 2048, 512), (9999, 9999, 512)],
)
def test_a_quarter_is_kept_back_but_never_more_than_512(
    total: int, critical: int, reserve: int
) -> None:
    assert Budget.of(total, critical, 8).reserve == reserve <= MAX_RESERVE == 512


def test_defaults_are_the_documented_ones() -> None:
    limits = Limits()
    assert (limits.max_paths, limits.max_live_paths, limits.max_depth) == (16, 32, 4)
    assert (limits.max_path_tokens, limits.max_goal_tokens, limits.max_blocks) == (4096, 1024, 64)


def test_the_tighter_of_both_budgets_bounds_what_comes_next() -> None:
    assert Budget.of(100, 40, 1).tokens == 40
    assert Budget.of(30, 40, 1).tokens == 30


def test_tokens_cost_both_budgets_and_parallel_ones_less_of_the_critical() -> None:
    budget = Budget.of(100, 80, 8)
    assert budget.spend(10) == Budget(90, 70, 8, budget.reserve)
    assert budget.spend(30, 12, 2) == Budget(70, 68, 6, budget.reserve)
    assert budget.spend(30, 0).critical == 80


def test_spending_does_not_touch_the_reserve_or_the_original() -> None:
    budget = Budget.of(100, 100, 8)
    assert budget.spend(90).reserve == 25
    assert budget == Budget(100, 100, 8, 25)


def test_a_fork_shares_the_total_and_gives_each_path_the_whole_critical_rest() -> None:
    budget = Budget.of(100, 60, 9)  # keeps 15 back
    share = budget.share(4, 4096)
    assert share == Budget.of((100 - 15) // 4, 21, 9 // 4)
    assert budget.share(1, 4096) == Budget.of(85, 45, 9)


def test_no_path_gets_more_than_its_cap() -> None:
    assert Budget.of(1000, 1000, 9).share(2, 50) == Budget.of(50, 50, 4)


def test_nothing_is_shared_when_only_the_reserve_is_left() -> None:
    budget = Budget.of(100, 100, 8).spend(90)
    assert budget.share(1, 4096) == Budget(0, 0, 8, 0)


@given(_budgets, st.integers(1, 20), st.integers(1, 5000))
def test_shares_never_touch_the_reserve(budget: Budget, paths: int, cap: int) -> None:
    share = budget.share(paths, cap)
    assert 0 <= share.critical <= share.total <= cap
    assert paths * share.total <= max(0, budget.total - budget.reserve)
    assert share.critical <= max(0, budget.critical - budget.reserve)
    assert paths * share.blocks <= budget.blocks
