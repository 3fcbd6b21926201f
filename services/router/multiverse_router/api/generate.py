"""POST /v1/generate: the native API, every path's events as they happen."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api.bodies import GenerateBody, Message, answer_request
from multiverse_router.api.errors import error_response
from multiverse_router.api.offload import made_from
from multiverse_router.api.outcome import Outcome
from multiverse_router.api.streaming import EventStream, sse, with_client
from multiverse_router.events import AnswerEvent, event_json
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings


def routes(answers: Answers, settings: RouterSettings) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/generate")
    async def generate(body: GenerateBody, request: Request) -> Response:
        wanted = await generate_request(body, answers, settings)
        await answers.admit([wanted])
        if body.stream:
            return EventStream(
                lambda: _events(answers, wanted), settings.stalled_reader_s, settings.heartbeat_s
            )
        keep_tags = body.keeps_tags(settings)
        outcome: Outcome = await with_client(request, Outcome.of(answers, wanted, tags=keep_tags))
        if outcome.error:
            return error_response(outcome.error.kind, outcome.error.message, outcome.status)
        return JSONResponse(_whole(wanted, outcome))

    return router


async def generate_request(
    body: GenerateBody, answers: Answers, settings: RouterSettings
) -> AnswerRequest:
    """The checked request of this API, whatever transport `body` came over."""
    return await made_from(
        body,
        answer_request,
        f"gen-{uuid.uuid4()}",
        body,
        body,
        body.messages or [Message(role="user", content=body.prompt or "")],
        body.max_tokens,
        answers.model(body.model),
        settings,
        answers.seal,
    )


async def _events(answers: Answers, wanted: AnswerRequest) -> AsyncIterator[str]:
    sequence = itertools.count()
    async with answers.answer(wanted) as events:
        async for piece in events.pieces():
            yield "".join(sse(event_json(event, next(sequence)), event.type) for event in piece)


def _whole(wanted: AnswerRequest, outcome: Outcome) -> dict[str, Any]:
    assert outcome.usage
    assert outcome.finish
    events: list[AnswerEvent] = outcome.events
    return {
        "id": wanted.id,
        "text": outcome.text,
        "finish_reason": outcome.finish.reason,
        "usage": event_json(outcome.usage, 0),
        "events": [event_json(event, number) for number, event in enumerate(events)],
    }
