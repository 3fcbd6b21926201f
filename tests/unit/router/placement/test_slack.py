import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.placement.slack import (
    GRACE_MS,
    MOST,
    RESERVE_MS,
    SHARE,
    paces_ms,
    slack_ms,
)
from multiverse_router.placement.view import Progress

OWN = Progress(began_s=0.0, target_ms=1.0)


def late(by_ms: float, **changes: int) -> Progress:
    """Began at 0, has a target of 50 ms, and is late at second 10."""
    tokens = round((10_000 - GRACE_MS - by_ms) / 50)
    return Progress(began_s=0.0, target_ms=50.0, tokens=tokens, **changes)


def test_slack_is_what_was_delivered_before_it_was_due() -> None:
    progress = Progress(began_s=2.0, target_ms=50.0, tokens=100)
    assert slack_ms(progress, now_s=4.0) == pytest.approx(100 * 50 + GRACE_MS - 2000)
    assert slack_ms(Progress(began_s=2.0), now_s=1e6) == math.inf


def paces(*residents: Progress, steps: float = 100, step_ms: float = 40.0) -> list[float]:
    return paces_ms(residents, OWN, steps, step_ms, 10.0)


def test_who_is_ahead_lends_what_is_beyond_the_reserve_over_the_steps_to_come() -> None:
    ahead = late(-RESERVE_MS - 2000), late(-RESERVE_MS - 1000)
    assert paces(*ahead, OWN) == pytest.approx([SHARE * 50 + 10, SHARE * 50 + 20])


def test_whoever_is_not_ahead_stands_a_share_of_its_target() -> None:
    assert paces(late(0), late(500)) == [SHARE * 50.0] * 2


def test_who_runs_many_paths_stands_slower_steps_up_to_a_limit() -> None:
    assert paces(late(0, running=2)) == [SHARE * 75.0]
    assert paces(late(0, running=6), late(-1e6)) == [MOST * 50.0] * 2


def test_who_will_be_late_whatever_comes_is_not_asked() -> None:
    assert paces(late(900)) == [SHARE * 50.0]
    assert paces(late(1100)) == []
    assert paces(late(0), step_ms=51.0) == []
    assert paces(late(1100, running=3)) != []


def test_who_has_no_target_or_a_lower_priority_is_not_asked() -> None:
    own = Progress(began_s=0.0, priority=1)
    asked = [Progress(began_s=0.0, priority=1), late(0), late(0, priority=1)]
    assert paces_ms(asked, own, 100, 40.0, 10.0) == [SHARE * 50.0]


@given(
    st.lists(st.builds(late, st.floats(-1e5, 1e5)), max_size=6),
    st.floats(1, 1e4),
    st.floats(1, 1e4),
)
def test_looking_further_ahead_never_allows_slower_steps(
    residents: list[Progress], few: float, many: float
) -> None:
    soon = paces(*residents, steps=min(few, many), step_ms=0.0)
    late_on = paces(*residents, steps=max(few, many), step_ms=0.0)
    assert all(later <= sooner for later, sooner in zip(late_on[::-1], soon[::-1], strict=False))
