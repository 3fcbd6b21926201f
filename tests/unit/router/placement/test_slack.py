import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.placement.slack import GRACE_MS, budget_ms, least_slack_ms, slack_ms
from multiverse_router.placement.view import Progress


def late(by_ms: float, **changes: int) -> Progress:
    """Began at 0, has a target of 50 ms, and is late at second 10."""
    tokens = round((10_000 - GRACE_MS - by_ms) / 50)
    return Progress(began_s=0.0, target_ms=50.0, tokens=tokens, **changes)


def test_slack_is_what_was_delivered_before_it_was_due() -> None:
    progress = Progress(began_s=2.0, target_ms=50.0, tokens=100)
    assert slack_ms(progress, now_s=4.0) == pytest.approx(100 * 50 + GRACE_MS - 2000)
    assert slack_ms(Progress(began_s=2.0), now_s=1e6) == math.inf


def test_a_budget_is_the_target_and_the_slack_of_the_steps_to_come() -> None:
    own = Progress(began_s=0.0, target_ms=1.0)
    assert budget_ms([late(-2000), late(-4000), own], own, 100, 10.0) == pytest.approx(70.0)


def test_one_that_is_late_is_owed_its_target() -> None:
    assert budget_ms([late(3000)], None, 100, 10.0) == 50.0


def test_who_has_no_target_or_a_lower_priority_is_not_asked() -> None:
    own = Progress(began_s=0.0, priority=1)
    assert budget_ms([Progress(began_s=0.0, priority=1), late(0)], own, 100, 10.0) == math.inf
    assert budget_ms([late(0, priority=1)], own, 100, 10.0) == 50.0
    assert least_slack_ms([late(500), late(-100, priority=1)], own, 10.0) == pytest.approx(100)


@given(
    st.lists(st.builds(late, st.floats(-1e5, 1e5)), max_size=6),
    st.floats(1, 1e4),
    st.floats(1, 1e4),
)
def test_looking_further_ahead_never_allows_slower_steps(
    residents: list[Progress], few: float, many: float
) -> None:
    soon = budget_ms(residents, None, min(few, many), 10.0)
    assert budget_ms(residents, None, max(few, many), 10.0) <= soon
