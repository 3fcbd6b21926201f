"""One answer as it comes: a context, an iterator of events, and the tree they have made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any

from multiverse_client.answer import Answer
from multiverse_client.errors import ApiError
from multiverse_client.events import Event
from multiverse_client.retry import Retry
from multiverse_client.transport import AsyncTransport, Transport


class AnswerStream:
    """Entering asks, with retries; leaving ends the answer, if it has not ended.

    `answer` is what has come so far, also after an error.
    """

    def __init__(self, transport: Transport, body: dict[str, Any], retry: Retry) -> None:
        self.answer = Answer()
        self._transport = transport
        self._body = body
        self._retry = retry
        self._scope = ExitStack()

    def __enter__(self) -> AnswerStream:
        attempt = 1
        while True:
            try:
                self._events = self._scope.enter_context(self._transport.open(self._body))
                return self
            except ApiError as error:
                delay = self._retry.delay(attempt, error)
                if delay is None:
                    raise
            time.sleep(delay)
            attempt += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scope.close()

    def __iter__(self) -> Iterator[Event]:
        """Events as they come. ApiError, with `started`, when the answer ends early."""
        for event in self._events:
            self.answer.add(event)
            yield event

    def read(self) -> Answer:
        """Read to the end."""
        for _ in self:
            pass
        return self.answer


class AsyncAnswerStream:
    """The same, in asyncio."""

    def __init__(self, transport: AsyncTransport, body: dict[str, Any], retry: Retry) -> None:
        self.answer = Answer()
        self._transport = transport
        self._body = body
        self._retry = retry
        self._scope = AsyncExitStack()

    async def __aenter__(self) -> AsyncAnswerStream:
        attempt = 1
        while True:
            try:
                answer = self._transport.open(self._body)
                self._events = await self._scope.enter_async_context(answer)
                return self
            except ApiError as error:
                delay = self._retry.delay(attempt, error)
                if delay is None:
                    raise
            await asyncio.sleep(delay)
            attempt += 1

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._scope.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Events as they come. ApiError, with `started`, when the answer ends early."""
        async for event in self._events:
            self.answer.add(event)
            yield event

    async def read(self) -> Answer:
        """Read to the end."""
        async for _ in self:
            pass
        return self.answer
