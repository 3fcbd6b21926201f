"""Whether the backend is worth asking.

After FAILURES in a row it is left alone, for a second at first and twice as long each time it
fails again, up to half a minute; then one answer makes it good.
"""

from __future__ import annotations

from collections.abc import Callable

FAILURES = 3
FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 30.0


class Health:
    """`clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def down(self) -> bool:
        return self._failures >= FAILURES and self._clock() < self._until

    def answered(self) -> None:
        self._failures = 0

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES:
            pause = FIRST_PAUSE_S * 2.0 ** min(self._failures - FAILURES, 10)
            self._until = self._clock() + min(pause, LAST_PAUSE_S)
