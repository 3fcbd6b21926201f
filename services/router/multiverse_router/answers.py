"""Starting answers: checks a request against the model, runs it, hands out its events.

The one place where a request becomes work. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from multiverse_router.context_seal import ContextSeal
from multiverse_router.coordinator import Coordinator
from multiverse_router.events import AnswerEvent, ErrorEvent, FinishEvent
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.worker_link import WorkerLink
from multiverse_shared.errors import (
    CapacityExceeded,
    MultiverseError,
    RequestTooLarge,
    WorkerUnavailable,
    status_of,
)
from multiverse_shared.tree import Context, count

log = logging.getLogger(__name__)


class Answers:
    """All answers in the making of this router."""

    def __init__(self, link: WorkerLink, max_requests: int, seal: ContextSeal) -> None:
        self.seal = seal
        self._link = link
        self._max_requests = max_requests
        self._running = 0

    @property
    def running(self) -> int:
        return self._running

    @property
    def model(self) -> ServedModel:
        """WorkerUnavailable while there is none."""
        return self._link.model

    def check(self, request: AnswerRequest) -> None:
        """Raise what would keep `request` from being started now."""
        if self._running >= self._max_requests:
            raise self._full()
        _check_size(request, self._link.model)

    def _full(self) -> CapacityExceeded:
        return CapacityExceeded(f"{self._max_requests} requests are in flight; try again later")

    @asynccontextmanager
    async def answer(self, request: AnswerRequest) -> AsyncIterator[AsyncIterator[AnswerEvent]]:
        """The events of one answer. Leaving the context ends all its work.

        A failure, whenever it happens, is the last event; `check` raises what is known before.
        """
        events: asyncio.Queue[AnswerEvent | None] = asyncio.Queue()  # bounded by the budget
        self._running += 1
        task = asyncio.create_task(self._run(request, events))
        try:
            yield _drain(events)
        finally:
            task.cancel()
            try:
                await asyncio.wait([task])
            finally:
                self._running -= 1

    async def _run(self, request: AnswerRequest, events: asyncio.Queue[AnswerEvent | None]) -> None:
        def tell(event: AnswerEvent) -> None:
            if isinstance(event, FinishEvent) and request.return_context:
                event = self._with_context(event, coordinator.answer, model.layout)
            events.put_nowait(event)

        try:
            model = self._link.model
            if model.digest != request.model_digest:
                raise WorkerUnavailable("the worker serves another model now; try again")
            if self._running > self._max_requests:
                raise self._full()
            coordinator = Coordinator(self._link, model, request, tell)
            await coordinator.run()
        except MultiverseError as error:
            events.put_nowait(ErrorEvent(status_of(type(error)).kind, error.message))
        except Exception:
            log.exception("request %s failed", request.id)
            events.put_nowait(ErrorEvent("internal_error", "the router failed; see its log"))
        finally:
            events.put_nowait(None)

    def _with_context(self, event: FinishEvent, answer: Context, layout: str) -> FinishEvent:
        sealed = self.seal.seal(answer, layout)
        return replace(event, context=sealed, context_omitted=None if sealed else "too_large")


async def _drain(events: asyncio.Queue[AnswerEvent | None]) -> AsyncIterator[AnswerEvent]:
    while (event := await events.get()) is not None:
        yield event


def _check_size(request: AnswerRequest, model: ServedModel) -> None:
    """Refuse what can't fit before anything is started."""
    size = count(request.prompt)
    if model.room(request.prompt) < 1:
        raise RequestTooLarge(
            f"the prompt has {size} tokens, the model's context is {model.context_length} and "
            f"the worker's pool {model.kv_cells}; shorten it",
            field="prompt",
        )
    most = model.pool_room(request.prompt)
    if request.limits.max_total_tokens > most:
        raise RequestTooLarge(
            f"max_tokens is {request.limits.max_total_tokens}, the worker's pool has room for "
            f"{most} behind this prompt; lower it",
            field="max_tokens",
        )
