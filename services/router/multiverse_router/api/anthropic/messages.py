"""POST /v1/messages, and count_tokens below it: answers as Anthropic's clients know them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api.anthropic.blocks import Data, MessageStream, WholeMessage
from multiverse_router.api.anthropic.bodies import CountBody, MessagesBody
from multiverse_router.api.anthropic.errors import AnthropicRoute, error_response
from multiverse_router.api.bodies import answer_request, chat_prompt
from multiverse_router.api.offload import made_from
from multiverse_router.api.openai.choices import choices_of
from multiverse_router.api.streaming import EventStream, sse, with_client
from multiverse_router.events import ErrorEvent
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings
from multiverse_shared.tree import count


def routes(answers: Answers, settings: RouterSettings) -> APIRouter:
    router = APIRouter(route_class=AnthropicRoute)

    @router.post("/v1/messages")
    async def messages(body: MessagesBody, request: Request) -> Response:
        model = answers.model(body.decoding.model)
        wanted = await made_from(
            body,
            answer_request,
            f"msg_{uuid.uuid4().hex}",
            body.decoding,
            body.multiverse,
            body.chat,
            body.max_tokens,
            model,
            settings,
            answers.seal,
        )
        await answers.admit([wanted])
        [choice] = choices_of([wanted], model, keep_tags=body.multiverse.keeps_tags(settings))
        told = MessageStream(wanted.id, model.name, choice)
        if body.stream:
            return EventStream(
                lambda: _events(answers, wanted, told),
                settings.stalled_reader_s,
                settings.heartbeat_s,
            )
        whole: Data | ErrorEvent = await with_client(request, _whole(answers, wanted, told))
        if isinstance(whole, ErrorEvent):
            return error_response(whole.kind, whole.message)
        return JSONResponse(whole)

    @router.post("/v1/messages/count_tokens")
    async def count_tokens(body: CountBody) -> dict[str, int]:
        """Tokens of the prompt that these messages make; nothing is begun."""
        model = answers.model(body.model)
        prompt = await made_from(body, chat_prompt, body.multiverse, body.chat, model, answers.seal)
        return {"input_tokens": count(prompt)}

    return router


async def _events(
    answers: Answers, wanted: AnswerRequest, told: MessageStream
) -> AsyncIterator[str]:
    async with answers.answer(wanted) as events:
        async for piece in events.pieces():
            said = [data for event in piece for data in told.tell(event)]
            if said:
                yield "".join(sse(data, data["type"]) for data in said)


async def _whole(answers: Answers, wanted: AnswerRequest, told: MessageStream) -> Data | ErrorEvent:
    whole = WholeMessage()
    async with answers.answer(wanted) as events:
        async for event in events:
            if isinstance(event, ErrorEvent):
                return event
            for data in told.tell(event):
                whole.add(data)
    return whole.body
