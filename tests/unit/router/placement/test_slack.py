import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.placement.slack import (
    GRACE_MS,
    RESERVE_MS,
    SHARE,
    budget_ms,
    slack_ms,
)
from multiverse_router.placement.view import Progress


def late(by_ms: float, **changes: int) -> Progress:
    """Began at 0, has a target of 50 ms, and is late at second 10."""
    tokens = round((10_000 - GRACE_MS - by_ms) / 50)
    return Progress(began_s=0.0, target_ms=50.0, tokens=tokens, **changes)


def test_slack_is_what_was_delivered_before_it_was_due() -> None:
    progress = Progress(began_s=2.0, target_ms=50.0, tokens=100)
    assert slack_ms(progress, now_s=4.0) == pytest.approx(100 * 50 + GRACE_MS - 2000)
    assert slack_ms(Progress(began_s=2.0), now_s=1e6) == math.inf


def test_who_is_ahead_lends_what_is_beyond_the_reserve_over_the_steps_to_come() -> None:
    own = Progress(began_s=0.0, target_ms=1.0)
    ahead = late(-RESERVE_MS - 2000), late(-RESERVE_MS - 4000)
    assert budget_ms([*ahead, own], own, 100, 10.0) == pytest.approx(SHARE * 50 + 20)


def test_whoever_is_not_ahead_stands_a_share_of_its_target() -> None:
    assert budget_ms([late(3000)], None, 100, 10.0) == budget_ms([late(0)], None, 100, 10.0)
    assert budget_ms([late(3000)], None, 100, 10.0) == SHARE * 50.0


def test_who_has_no_target_or_a_lower_priority_is_not_asked() -> None:
    own = Progress(began_s=0.0, priority=1)
    assert budget_ms([Progress(began_s=0.0, priority=1), late(0)], own, 100, 10.0) == math.inf
    assert budget_ms([late(0, priority=1)], own, 100, 10.0) == SHARE * 50.0


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
