"""Places of answers in this router, and the queue for them.

Who finds no place waits, the higher priority first, then who came first; for so long and in such
numbers as the settings allow.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools

from multiverse_shared.errors import CapacityExceeded

RETRY_S = 1.0


class Places:
    """`most` answers in flight, `most_queued` that wait."""

    def __init__(self, most: int, most_queued: int = 0) -> None:
        self._most = most
        self._most_queued = most_queued
        self._taken = 0
        self._order = itertools.count()
        self._queue: list[tuple[int, int, int, asyncio.Future[None]]] = []

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def queued(self) -> int:
        return sum(not future.done() for *_, future in self._queue)

    async def take(self, count: int, priority: int = 0, within_s: float = 0.0) -> None:
        """`count` places. CapacityExceeded when they are not free within `within_s`."""
        if not self.queued and self._taken + count <= self._most:
            self._taken += count
            return
        if count > self._most or self.queued >= self._most_queued or within_s <= 0:
            raise CapacityExceeded(
                f"{self._most} requests are in flight; try again later", retry_after_s=RETRY_S
            )
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (-priority, next(self._order), count, future))
        try:
            async with asyncio.timeout(within_s):
                await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                return  # it came just then
            raise CapacityExceeded(
                f"no place within {within_s:g} s, {self._most} requests are in flight; "
                "try again later",
                retry_after_s=max(RETRY_S, within_s),
            ) from None
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(count)
            raise
        finally:
            future.cancel()
            self._next()

    def give(self, count: int = 1) -> None:
        self._taken -= count
        self._next()

    def _next(self) -> None:
        """The first in the queue has a place when there is one: nobody overtakes it."""
        while self._queue:
            _, _, count, future = self._queue[0]
            if not future.done():
                if self._taken + count > self._most:
                    return
                self._taken += count
                future.set_result(None)
            heapq.heappop(self._queue)
