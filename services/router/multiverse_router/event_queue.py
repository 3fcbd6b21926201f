"""What coordinators have told and their reader has not taken yet.

Bounded by the token budgets of the answers; no coordinator ever waits for the reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")
AT_ONCE = 16


class EventQueue(Generic[T]):
    """An asynchronous iterator for one reader, on one event loop; ends when all writers have."""

    def __init__(self, writers: int = 1) -> None:
        self._events: deque[T] = deque()
        self._news = asyncio.Event()
        self._writers = writers

    def put(self, event: T) -> None:
        self._events.append(event)
        self._news.set()

    def close(self) -> None:
        """Nothing follows from one of the writers."""
        self._writers -= 1
        self._news.set()

    @property
    def over(self) -> bool:
        """Whether everything was taken, and nothing follows."""
        return not self._writers and not self._events

    def ready(self, most: int) -> list[T]:
        """What can be had without waiting, up to so many; it is taken out."""
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    async def pieces(self) -> AsyncIterator[list[T]]:
        """Events in order, those that are there at once (of paths of one step) together.

        A piece has an end, or a reader that stalls in a long one would not be noticed.
        """
        async for first in self:
            yield [first, *self.ready(AT_ONCE - 1)]

    def __aiter__(self) -> EventQueue[T]:
        return self

    async def __anext__(self) -> T:
        while not self._events:
            if not self._writers:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()
