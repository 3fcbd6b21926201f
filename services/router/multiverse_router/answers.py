"""Starting answers: checks a request against the model, runs it, hands out its events.

The one place where a request becomes work. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from multiverse_shared.errors import CapacityExceeded, MultiverseError, RequestTooLarge, status_of

from multiverse_router.coordinator import Coordinator
from multiverse_router.events import AnswerEvent, ErrorEvent
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.worker_link import WorkerLink


class Answers:
    """All answers in the making of this router."""

    def __init__(self, link: WorkerLink, max_requests: int) -> None:
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
            raise CapacityExceeded(f"{self._max_requests} requests are in flight; try again later")
        _check_size(request, self._link.model)

    @asynccontextmanager
    async def answer(self, request: AnswerRequest) -> AsyncIterator[AsyncIterator[AnswerEvent]]:
        """The events of one answer. Leaving the context ends all its work.

        A failure after the first event is the last event; one before it is raised.
        """
        self.check(request)
        model = self._link.model
        events: asyncio.Queue[AnswerEvent | None] = asyncio.Queue()  # bounded by the budget
        coordinator = Coordinator(self._link, model, request, events.put_nowait)
        self._running += 1
        task = asyncio.create_task(_run(coordinator, events))
        try:
            yield _drain(events)
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._running -= 1


async def _run(coordinator: Coordinator, events: asyncio.Queue[AnswerEvent | None]) -> None:
    try:
        await coordinator.run()
    except MultiverseError as error:
        events.put_nowait(ErrorEvent(status_of(type(error)).kind, error.message))
    except Exception:
        events.put_nowait(ErrorEvent("internal_error", "the router failed; see its log"))
        raise
    finally:
        events.put_nowait(None)


async def _drain(events: asyncio.Queue[AnswerEvent | None]) -> AsyncIterator[AnswerEvent]:
    while (event := await events.get()) is not None:
        yield event


def _check_size(request: AnswerRequest, model: ServedModel) -> None:
    """Refuse what can't fit before anything is started."""
    room = min(model.context_length, model.kv_cells) - len(request.prompt)
    if room < 1:
        raise RequestTooLarge(
            f"the prompt has {len(request.prompt)} tokens, the model's context is "
            f"{model.context_length}; shorten it",
            field="prompt",
        )
    if len(request.prompt) + request.limits.max_total_tokens > model.kv_cells:
        raise RequestTooLarge(
            f"prompt and max_tokens are {len(request.prompt) + request.limits.max_total_tokens} "
            f"tokens, the worker's pool holds {model.kv_cells}; lower max_tokens",
            field="max_tokens",
        )
