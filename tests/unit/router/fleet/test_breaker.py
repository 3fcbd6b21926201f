"""The circuit breaker of a worker."""

from __future__ import annotations

from multiverse_router.fleet.breaker import FAILURES, MOST_OPEN_S, OPEN_S, Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened() -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(FAILURES):
        breaker.failed()
    return breaker, clock


def test_failures_in_a_row_open_it_and_one_success_begins_anew() -> None:
    breaker = Breaker(Clock())
    for _ in range(FAILURES - 1):
        breaker.failed()
    breaker.succeeded()
    for _ in range(FAILURES - 1):
        breaker.failed()
    assert breaker.allows
    breaker.failed()
    assert not breaker.allows


def test_after_a_while_one_trial_is_allowed() -> None:
    breaker, clock = opened()
    clock.now += OPEN_S
    assert breaker.allows
    breaker.begin()
    assert not breaker.allows, "one trial at a time"
    breaker.succeeded()
    assert breaker.allows
    assert breaker.closed


def test_a_trial_that_fails_doubles_the_wait_up_to_a_bound() -> None:
    breaker, clock = opened()
    waits = []
    for _ in range(10):
        before = clock.now
        while not breaker.allows:
            clock.now += OPEN_S / 2
        waits.append(clock.now - before)
        breaker.begin()
        breaker.failed()
    assert waits[:3] == [OPEN_S, 2 * OPEN_S, 4 * OPEN_S]
    assert max(waits) == MOST_OPEN_S


def test_older_work_that_fails_while_it_is_open_changes_nothing() -> None:
    breaker, clock = opened()
    for _ in range(50):
        breaker.failed()
    clock.now += OPEN_S
    assert breaker.allows


def test_a_trial_that_never_ends_is_forgotten() -> None:
    breaker, clock = opened()
    clock.now += OPEN_S
    breaker.begin()
    clock.now += MOST_OPEN_S
    assert breaker.allows


def test_some_failures_open_it_at_once() -> None:
    breaker = Breaker(Clock())
    breaker.failed(at_once=True)
    assert not breaker.allows
