"""An answer in the making whose reader may stall.

A gRPC message that was handed over can't be taken back, nor passed by a status: its writing has
to be waited for, while the work ends. So the answer is held by a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multiverse_router.answers import Answers
from multiverse_router.events import AnswerEvent
from multiverse_router.request import AnswerRequest


class HeldAnswer:
    """`stalled`: a piece was not taken in time; the work has ended and no more events come."""

    def __init__(self, stalled_s: float) -> None:
        self.stalled = False
        self._stalled_s = stalled_s
        self._since: float | None = None  # when the writing began that is not done yet
        self._clock = asyncio.get_running_loop().time

    def writes(self) -> None:
        self._since = self._clock()

    def wrote(self) -> None:
        self._since = None

    @asynccontextmanager
    async def events(
        self, answers: Answers, wanted: AnswerRequest
    ) -> AsyncIterator[AsyncIterator[AnswerEvent]]:
        """As `Answers.answer`, but ended also by a reader that stalls."""
        begun: asyncio.Future[AsyncIterator[AnswerEvent]] = asyncio.Future()
        holding = asyncio.create_task(self._hold(answers, wanted, begun))
        try:
            either: list[asyncio.Future[Any]] = [holding, begun]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                holding.result()
            yield begun.result()
        finally:
            holding.cancel()
            await asyncio.wait([holding])

    async def _hold(
        self,
        answers: Answers,
        wanted: AnswerRequest,
        begun: asyncio.Future[AsyncIterator[AnswerEvent]],
    ) -> None:
        async with answers.answer(wanted) as events:
            begun.set_result(events)
            while (left := self._left()) > 0:  # noqa: ASYNC110 - a matter of time, not of an event
                await asyncio.sleep(left)
            self.stalled = True

    def _left(self) -> float:
        """Seconds until the reader can have stalled at the earliest."""
        since = self._clock() if self._since is None else self._since
        return since + self._stalled_s - self._clock()
