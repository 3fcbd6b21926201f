"""POST /v1/chat/completions: answers in linear order."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api.bodies import answer_request
from multiverse_router.api.offload import made_from
from multiverse_router.api.openai.bodies import ChatBody
from multiverse_router.api.openai.choices import (
    Choice,
    Part,
    alternatives,
    check_choices,
    choices_of,
    extended,
    tell_all,
    usage_of,
    written,
)
from multiverse_router.api.openai.errors import error_response
from multiverse_router.api.openai.logprobs import choice_logprobs
from multiverse_router.api.streaming import EventStream, sse, with_client
from multiverse_router.events import AnswerEvent, FinishEvent
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings


def add(router: APIRouter, answers: Answers, settings: RouterSettings) -> None:
    @router.post("/v1/chat/completions")
    async def chat(body: ChatBody, request: Request) -> Response:
        check_choices(body, 1, settings)
        model = answers.model(body.model)
        wanted = await made_from(
            body,
            answer_request,
            f"chatcmpl-{uuid.uuid4()}",
            body,
            body.multiverse,
            body.messages,
            body.max_completion_tokens or body.max_tokens,
            model,
            settings,
            answers.seal,
        )
        requests = alternatives(wanted, body.n)
        await answers.admit(requests)
        choices = choices_of(requests, model, keep_tags=body.multiverse.keeps_tags(settings))
        frame = {"id": wanted.id, "created": int(time.time()), "model": model.name}
        if body.stream:
            return EventStream(
                lambda: _chunks(answers, requests, choices, frame, body.include_usage),
                settings.stalled_reader_s,
                settings.heartbeat_s,
            )
        error = await with_client(request, tell_all(answers, requests, choices))
        if error:
            return error_response(error.message, error.kind)
        return JSONResponse(_completion(frame, choices, logprobs=wanted.sampling.logprobs))


def _completion(
    frame: dict[str, Any], choices: Sequence[Choice], *, logprobs: bool
) -> dict[str, Any]:
    body = {
        **frame,
        "object": "chat.completion",
        "choices": [_choice(index, choice, logprobs) for index, choice in enumerate(choices)],
        "usage": usage_of(choices, len(choices)),
    }
    return extended(body, choices, len(choices))


def _choice(index: int, choice: Choice, logprobs: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": choice.text(thought=False)}
    if choice.thinking:
        message["reasoning_content"] = choice.text(thought=True)
    return {
        "index": index,
        "message": message,
        "logprobs": choice_logprobs(choice.told) if logprobs else None,
        "finish_reason": choice.reason,
    }


async def _chunks(
    answers: Answers,
    requests: Sequence[AnswerRequest],
    choices: Sequence[Choice],
    frame: dict[str, Any],
    include_usage: bool,
) -> AsyncIterator[str]:
    frame = {**frame, "object": "chat.completion.chunk"}
    logprobs = requests[0].sampling.logprobs

    def chunk(
        index: int, delta: dict[str, str], part: Part | None = None, **more: Any
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None, **more}
        if logprobs and part:
            choice["logprobs"] = choice_logprobs(part.told)
        body = {**frame, "choices": [choice]}
        return {**body, "usage": None} if include_usage else body

    def said(index: int, event: AnswerEvent) -> Iterator[str]:
        choice = choices[index]
        for part in choice.tell(event):
            name = "reasoning_content" if part.thought else "content"
            if part.text or any(told.logprobs for told in part.told):
                yield sse(chunk(index, {name: part.text}, part))
        if isinstance(event, FinishEvent):
            last = chunk(index, {}, finish_reason=choice.reason)
            yield sse(extended(last, [choice], len(choices)))

    roles = {"role": "assistant", "content": ""}
    yield "".join(sse(chunk(index, roles)) for index in range(len(requests)))
    async with answers.choices(requests) as events:
        async for text, failed in written(events, said):
            if text:
                yield text
            if failed:
                return
    if include_usage:
        yield sse({**frame, "choices": [], "usage": usage_of(choices, len(choices))})
    yield "data: [DONE]\n\n"
