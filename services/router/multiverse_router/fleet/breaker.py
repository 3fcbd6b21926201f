"""A circuit breaker: a worker that fails again and again is left alone for a while.

    closed      everything is allowed; FAILURES failures in a row open it
    open        nothing is allowed for OPEN_S * 2**n seconds, at most MOST_OPEN_S; n counts openings
    half-open   one trial is allowed; its success closes the breaker, its failure opens it again

Knows no network.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAILURES = 3
OPEN_S = 1.0
MOST_OPEN_S = 30.0


class Breaker:
    """Of one worker. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._openings = 0
        self._opens_at: float | None = None  # when a trial is allowed; None: closed
        self._trial_until = 0.0

    @property
    def allows(self) -> bool:
        """Whether work may be given now. Asking changes nothing."""
        if self._opens_at is None:
            return True
        now = self._clock()
        return now >= self._opens_at and now >= self._trial_until

    @property
    def closed(self) -> bool:
        return self._opens_at is None

    def begin(self) -> None:
        """Work is given: while half-open it is the trial, and no other is allowed beside it."""
        if self._opens_at is not None:
            self._trial_until = self._clock() + MOST_OPEN_S  # one that never ends is forgotten

    def succeeded(self) -> None:
        self._failures = self._openings = 0
        self._opens_at, self._trial_until = None, 0.0

    def failed(self, *, at_once: bool = False) -> None:
        """`at_once`: one such failure is enough to open. While open, older work may fail on."""
        if self._opens_at is not None and self._clock() < self._opens_at:
            return
        self._failures += 1
        if self._opens_at is not None or at_once or self._failures >= FAILURES:
            seconds = min(MOST_OPEN_S, OPEN_S * 2.0**self._openings)
            self._openings += 1
            self._failures = 0
            self._opens_at, self._trial_until = self._clock() + seconds, 0.0
