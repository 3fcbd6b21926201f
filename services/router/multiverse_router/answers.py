"""Starting answers: checks a request against the model, runs it, hands out its events.

The one place where a request becomes work. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from multiverse_router.answer_meter import AnswerMeter
from multiverse_router.answer_observer import AnswerObserver
from multiverse_router.answer_trace import AnswerTrace
from multiverse_router.context_seal import ContextSeal
from multiverse_router.coordinator import Coordinator
from multiverse_router.event_queue import EventQueue
from multiverse_router.events import AnswerEvent, ErrorEvent, FinishEvent
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.limits.admissions import Admissions, Grant
from multiverse_router.logprobs import TokenLogprob
from multiverse_router.metrics import RouterMetrics
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.scoring import prompt_logprobs
from multiverse_router.visit import current_visit
from multiverse_shared.api_keys import Allowance
from multiverse_shared.errors import (
    MultiverseError,
    RequestTooLarge,
    WorkerUnavailable,
    status_of,
)
from multiverse_shared.tree import Context, count

_Event = tuple[int, AnswerEvent]
_CLOSING = "the router is shutting down; try again, elsewhere or a little later"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of several answers, on its way into the queue of all."""

    events: EventQueue[_Event]
    index: int

    def put(self, event: AnswerEvent) -> None:
        self.events.put((self.index, event))

    def close(self) -> None:
        self.events.close()


_Told = EventQueue[AnswerEvent] | _Choice


class Answers:
    """All answers in the making of this router."""

    def __init__(
        self,
        fleet: Fleet,
        admissions: Admissions,
        seal: ContextSeal,
        *,
        most_prompt_tokens: int | None = None,
        metrics: RouterMetrics | None = None,
    ) -> None:
        self.seal = seal
        self.metrics = metrics or RouterMetrics()
        self.closing = False  # nothing new is let in; what was let in goes on
        self._fleet = fleet
        self._admissions = admissions
        self._most_prompt = most_prompt_tokens
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = False  # nothing goes on

    @property
    def running(self) -> int:
        return self._admissions.places.taken

    def model(self, name: str | None = None) -> ServedModel:
        """The model called so; the only one without a name. See `Fleet.model` for the errors."""
        model = self._fleet.model(name)
        current_visit().model = model.name
        return model

    @property
    def only_model(self) -> str:
        """The name of the model where there is one, also while its workers are away; else empty."""
        names = self._fleet.names
        return names[0] if len(names) == 1 else ""

    @property
    def models(self) -> list[ServedModel]:
        """All that are served now. WorkerUnavailable while there is none."""
        return self._fleet.models

    @property
    def ready(self) -> bool:
        """Whether anything can be taken."""
        return not self.closing and self._fleet.ready

    async def admit(self, requests: Sequence[AnswerRequest]) -> None:
        """Let answers in, all or none; each is then begun by `answer` or `choices`.

        They may wait for a place. MultiverseError says what keeps them from being begun.
        """
        visit = current_visit()
        for request in requests:
            self._check(request)
        first = requests[0]
        cost = max(count(one.prompt) + one.limits.max_total_tokens for one in requests)
        deadline_s = visit.bounded(first.deadline_s)
        ids = [request.id for request in requests]
        for grant in await self._admissions.admit(
            first.tenant, ids, cost, deadline_s, first.priority
        ):
            visit.grants[grant.id] = grant

    def _check(self, request: AnswerRequest) -> None:
        if self.closing:
            raise WorkerUnavailable(_CLOSING)
        model = self._served(request)
        if not self._fleet.pool(model).available:
            raise WorkerUnavailable(self._fleet.reason)
        _check_size(request, model, self._most_prompt)

    def end_all(self) -> None:
        """End what still runs, with an error as its last event. Nothing is begun any more."""
        self.closing = self._ended = True
        for task in self._tasks:  # after their first step, which makes them end as they should
            asyncio.get_running_loop().call_soon(task.cancel)

    @asynccontextmanager
    async def answer(self, request: AnswerRequest) -> AsyncIterator[EventQueue[AnswerEvent]]:
        """The events of one answer. Leaving the context ends all its work.

        A failure, whenever it happens, is the last event; `check` raises what is known before.
        """
        events: EventQueue[AnswerEvent] = EventQueue()
        current_visit().over = lambda: events.over
        async with self._making([request], [events]):
            yield events

    @asynccontextmanager
    async def choices(self, requests: Sequence[AnswerRequest]) -> AsyncIterator[EventQueue[_Event]]:
        """The events of several answers in the making, each with the index of its request."""
        events: EventQueue[_Event] = EventQueue(len(requests))
        current_visit().over = lambda: events.over
        async with self._making(requests, [_Choice(events, n) for n in range(len(requests))]):
            yield events

    @asynccontextmanager
    async def _making(
        self, requests: Sequence[AnswerRequest], told: Sequence[_Told]
    ) -> AsyncIterator[None]:
        """Answers run inside, each into its own of `told`; what is left of them ends with it."""
        visit = current_visit()
        tasks: list[asyncio.Task[None]] = []
        for request, events in zip(requests, told, strict=True):
            visit.answers.append(request.id)
            bounded = replace(request, deadline_s=visit.bounded(request.deadline_s))
            tasks.append(asyncio.create_task(self._run(bounded, events)))
        self._tasks.update(tasks)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._tasks.difference_update(tasks)
            for request in requests:
                grant = visit.grants.pop(request.id, None)
                if grant is not None:
                    grant.end()

    async def _granted(self, request: AnswerRequest) -> Grant:
        """What lets the answer in: given by `admit`, or asked for now."""
        grants = current_visit().grants
        if request.id not in grants:
            await self.admit([request])
        return grants[request.id]

    async def prompt_logprobs(self, request: AnswerRequest) -> tuple[TokenLogprob, ...]:
        """Those of the prompt's tokens but the first, before which there is nothing."""
        bounded = replace(request, deadline_s=current_visit().bounded(request.deadline_s))
        model = self._served(request)
        return await prompt_logprobs(self._fleet.pool(model), model, bounded)

    def _served(self, request: AnswerRequest) -> ServedModel:
        """The model that a request was encoded for. WorkerUnavailable when it is gone."""
        model = self._fleet.model(request.model)
        if model.digest != request.model_digest:
            raise WorkerUnavailable("the workers serve another model now; try again")
        return model

    async def _run(self, request: AnswerRequest, events: _Told) -> None:
        meter = AnswerMeter(self.metrics, request.model)
        trace = AnswerTrace(current_visit().span, request)
        observer = AnswerObserver(meter, trace)

        def tell(event: AnswerEvent) -> None:
            observer.saw(event)
            events.put(event)

        def emit(event: AnswerEvent) -> None:
            if isinstance(event, FinishEvent) and request.return_context:
                event = self._with_context(event, coordinator.answer, model.layout)
            tell(event)

        grant: Grant | None = None
        try:
            grant = await self._granted(request)
            request = _aimed(request, grant.allowance, self._fleet.token_ms)
            model = self._served(request)
            if self._ended:
                raise WorkerUnavailable(_CLOSING)
            coordinator = Coordinator(self._fleet.pool(model), model, request, emit, observer)
            await coordinator.run()
        except MultiverseError as error:
            tell(_error_event(error))
        except asyncio.CancelledError:
            if self._ended:  # else its reader has gone
                tell(_error_event(WorkerUnavailable(_CLOSING)))
            raise
        except Exception:
            log.exception("request %s failed", request.id)
            tell(ErrorEvent("internal_error", "the router failed; see its log"))
        finally:
            if grant is not None:
                grant.used = meter.tokens
            observer.ended()
            events.close()

    def _with_context(self, event: FinishEvent, answer: Context, layout: str) -> FinishEvent:
        sealed = self.seal.seal(answer, layout)
        return replace(event, context=sealed, context_omitted=None if sealed else "too_large")


def _aimed(request: AnswerRequest, allowed: Allowance, token_ms: float | None) -> AnswerRequest:
    """With the target and the priority that count: its own, those of its key, the router's."""
    return replace(
        request,
        token_ms=request.token_ms or allowed.token_ms or token_ms,
        priority=allowed.ranked(request.priority),
    )


def _error_event(error: MultiverseError) -> ErrorEvent:
    return ErrorEvent(status_of(type(error)).kind, error.message)


def _check_size(request: AnswerRequest, model: ServedModel, most_prompt: int | None) -> None:
    """Refuse what can't fit before anything is started."""
    size = count(request.prompt)
    if most_prompt is not None and size > most_prompt:
        raise RequestTooLarge(
            f"the prompt has {size} tokens, {most_prompt} are taken here; shorten it",
            field="prompt",
        )
    if model.room(request.prompt) < 1:
        raise RequestTooLarge(
            f"the prompt has {size} tokens, this model's maximum context length is "
            f"{model.context_length} tokens and the worker's pool {model.kv_cells}; shorten it",
            field="prompt",
        )
    most = model.pool_room(request.prompt)
    if request.limits.max_total_tokens > most:
        raise RequestTooLarge(
            f"max_tokens is {request.limits.max_total_tokens}, the worker's pool has room for "
            f"{most} behind this prompt; lower it",
            field="max_tokens",
        )
