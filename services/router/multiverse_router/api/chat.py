"""POST /v1/chat/completions and GET /v1/models: what OpenAI's clients speak.

The content is the answer in linear order; extensions stand under one `multiverse` key.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api.bodies import ChatBody, answer_request
from multiverse_router.api.errors import error_body, error_response
from multiverse_router.api.logprobs import choice_logprobs
from multiverse_router.api.outcome import Outcome
from multiverse_router.api.streaming import EventStream, sse, with_client
from multiverse_router.events import ErrorEvent, FinishEvent, TextEvent, UsageEvent
from multiverse_router.linear import Linear
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings


def routes(answers: Answers, settings: RouterSettings) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        model = answers.model
        entry = {
            "id": model.name,
            "object": "model",
            "created": 0,
            "owned_by": "multiverse",
            "multiverse": {
                "dialect": model.grammar.dialect.name,
                "positions": model.positions.value,
                "context_length": model.context_length,
            },
        }
        return {"object": "list", "data": [entry]}

    @router.post("/v1/chat/completions")
    async def chat(body: ChatBody, request: Request) -> Response:
        max_tokens = body.max_completion_tokens or body.max_tokens
        wanted = await asyncio.to_thread(
            answer_request,
            f"chatcmpl-{uuid.uuid4()}",
            body,
            body.multiverse,
            body.messages,
            max_tokens,
            answers.model,
            settings,
            answers.seal,
        )
        tags = body.multiverse.tags == "keep"
        model = answers.model.name
        answers.check(wanted)
        if not body.stream:
            outcome = await with_client(request, Outcome.of(answers, wanted, tags=tags))
            if outcome.error:
                return error_response(outcome.error.kind, outcome.error.message, outcome.status)
            return JSONResponse(_completion(wanted, model, outcome))
        include_usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(
            lambda: _chunks(answers, wanted, model, tags, include_usage),
            settings.stalled_reader_s,
            settings.heartbeat_s,
        )

    return router


def _completion(wanted: AnswerRequest, model: str, outcome: Outcome) -> dict[str, Any]:
    assert outcome.usage
    assert outcome.finish
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": outcome.text},
        "finish_reason": _openai_reason(outcome.finish.reason),
    }
    if wanted.sampling.logprobs:
        choice["logprobs"] = choice_logprobs(outcome.told)
    return {
        "id": wanted.id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": _usage(outcome.usage),
        "multiverse": _extension(outcome.usage, outcome.finish),
    }


async def _chunks(
    answers: Answers, wanted: AnswerRequest, model: str, tags: bool, include_usage: bool
) -> AsyncIterator[str]:
    frame = {
        "id": wanted.id,
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
    }

    def chunk(
        delta: dict[str, str],
        reason: str | None = None,
        told: Sequence[TextEvent] = (),
        **more: Any,
    ) -> str:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if wanted.sampling.logprobs and told:
            choice["logprobs"] = choice_logprobs(told)
        return sse({**frame, "choices": [choice], **more})

    linear = Linear(tags=tags)
    usage: UsageEvent | None = None
    yield chunk({"role": "assistant", "content": ""})
    async with answers.answer(wanted) as events:
        async for event in events:
            told = linear.ready(event)
            text = "".join(part.delta for part in told)
            if text or any(part.logprobs for part in told):
                yield chunk({"content": text}, told=told)
            match event:
                case UsageEvent():
                    usage = event
                case FinishEvent():
                    assert usage is not None
                    more = _extension(usage, event)
                    yield chunk({}, _openai_reason(event.reason), multiverse=more)
                    if include_usage:
                        yield sse({**frame, "choices": [], "usage": _usage(usage)})
                case ErrorEvent():
                    yield sse(error_body(event.kind, event.message), "error")
                    return
    yield "data: [DONE]\n\n"


def _openai_reason(reason: str) -> str:
    return reason if reason == "stop" else "length"


def _usage(usage: UsageEvent) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _extension(usage: UsageEvent, finish: FinishEvent) -> dict[str, Any]:
    context = {"context": finish.context, "context_omitted": finish.context_omitted}
    return {
        "written_tokens": usage.written_tokens,
        "critical_path_tokens": usage.critical_path_tokens,
        "parallelism": usage.parallelism,
        "reused_tokens": usage.reused_tokens,
        "irregular": usage.irregular,
        "finish_reason": finish.reason,
        **{name: value for name, value in context.items() if value is not None},
    }
