"""How fast questions may be asked: requests and tokens a minute.

Knows a clock. A service with many workers brings a `Pace` of its own that they share.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Pace(Protocol):
    async def wait(self, tokens: int) -> None:
        """Returns when a question of about so many tokens may be asked."""


class LocalPace:
    """Two buckets, filled evenly; each may hold ten seconds' worth. None: unlimited."""

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._requests = _Bucket(requests_per_minute)
        self._tokens = _Bucket(tokens_per_minute)

    async def wait(self, tokens: int) -> None:
        # Both are booked at once, so that waiting for one does not idle the other.
        delay = max(self._requests.take(1), self._tokens.take(tokens))
        if delay > 0:
            await asyncio.sleep(delay)


class _Bucket:
    """Goes into debt and says how long until it is paid: waiters keep their order."""

    BURST_S = 10.0

    def __init__(self, per_minute: int | None) -> None:
        self._rate = per_minute / 60 if per_minute else None
        self._most = (self._rate or 0) * self.BURST_S
        self._level = self._most
        self._at = time.monotonic()

    def take(self, amount: int) -> float:
        """Seconds to wait."""
        if self._rate is None:
            return 0.0
        now = time.monotonic()
        self._level = min(self._most, self._level + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._level / self._rate)
