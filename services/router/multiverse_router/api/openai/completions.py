"""POST /v1/completions: answers to prompts without a chat template, in linear order."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api.offload import made_from
from multiverse_router.api.openai.bodies import CompletionBody
from multiverse_router.api.openai.choices import (
    Choice,
    alternatives,
    choices_of,
    extended,
    tell_all,
    usage_of,
    written,
)
from multiverse_router.api.openai.errors import error_response, event_error
from multiverse_router.api.openai.logprobs import Columns, joined
from multiverse_router.api.openai.prompts import Prompt, prompts_of, scores_of
from multiverse_router.api.streaming import EventStream, sse, with_client
from multiverse_router.events import AnswerEvent, ErrorEvent, FinishEvent
from multiverse_router.logprobs import TokenLogprob
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import MultiverseError, status_of


def add(router: APIRouter, answers: Answers, settings: RouterSettings) -> None:
    @router.post("/v1/completions")
    async def complete(body: CompletionBody, request: Request) -> Response:
        model = answers.model(body.model)
        prompts = await made_from(body, prompts_of, body, model, settings)
        requests = [each for prompt in prompts for each in alternatives(prompt.request, body.n)]
        await answers.admit(requests)
        keep_tags = body.multiverse.keeps_tags(settings)
        completion = _Completion(
            body,
            prompts,
            requests,
            choices_of(requests, model, keep_tags=keep_tags, thoughts=False),
            {
                "id": prompts[0].request.id,
                "object": "text_completion",
                "created": int(time.time()),
                "model": model.name,
            },
        )
        if body.stream:
            return EventStream(
                lambda: completion.chunks(answers), settings.stalled_reader_s, settings.heartbeat_s
            )
        error = await with_client(request, completion.run(answers))
        return error_response(error.message, error.kind) if error else completion.whole()


@dataclass(slots=True)
class _Completion:
    """One request: `n` answers for each of its prompts."""

    body: CompletionBody
    prompts: list[Prompt]
    requests: list[AnswerRequest]
    choices: list[Choice]
    frame: dict[str, Any]
    columns: list[Columns] = field(init=False)
    scores: list[tuple[TokenLogprob, ...]] | None = None

    def __post_init__(self) -> None:
        self.columns = [Columns(self.body.logprobs or 0) for _ in self.requests]

    async def run(self, answers: Answers) -> ErrorEvent | None:
        """All of it; the failure if there is one."""
        await self._score(answers)
        return await tell_all(answers, self.requests, self.choices)

    async def _score(self, answers: Answers) -> None:
        if self.body.echo and self.body.logprobs is not None:
            self.scores = await scores_of(self.prompts, answers)

    def _echo(self, index: int) -> tuple[str, dict[str, Any] | None]:
        """What stands before answer number `index`: text and logprobs."""
        number = index // self.body.n
        score = self.scores[number] if self.scores else None
        return self.prompts[number].echo(score, self.columns[index])

    def whole(self) -> Response:
        choices = [self._choice(index, choice) for index, choice in enumerate(self.choices)]
        usage = usage_of(self.choices, self.body.n)
        body = {**self.frame, "choices": choices, "usage": usage}
        return JSONResponse(extended(body, self.choices, len(self.choices)))

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        text, logprobs = self._echo(index) if self.body.echo else ("", None)
        if self.body.logprobs is not None:
            answered = self.columns[index].answer(choice.told)
            logprobs = joined(logprobs, answered) if logprobs else answered
        text += choice.text(thought=False)
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": choice.reason,
        }

    async def chunks(self, answers: Answers) -> AsyncIterator[str]:
        try:
            await self._score(answers)
        except MultiverseError as error:
            failure = ErrorEvent(status_of(type(error)).kind, error.message)
            yield sse(event_error(failure), "error")
            return
        if self.body.echo:
            for index in range(len(self.requests)):
                yield sse(self._chunk(index, *self._echo(index)))
        async with answers.choices(self.requests) as events:
            async for text, failed in written(events, self._said):
                if text:
                    yield text
                if failed:
                    return
        if self.body.include_usage:
            yield sse({**self.frame, "choices": [], "usage": usage_of(self.choices, self.body.n)})
        yield "data: [DONE]\n\n"

    def _said(self, index: int, event: AnswerEvent) -> Iterator[str]:
        choice = self.choices[index]
        for part in choice.tell(event):
            logprobs = None
            if self.body.logprobs is not None:
                logprobs = self.columns[index].answer(part.told)
            if part.text or any(told.logprobs for told in part.told):
                yield sse(self._chunk(index, part.text, logprobs))
        if isinstance(event, FinishEvent):
            last = self._chunk(index, "", None, choice.reason)
            yield sse(extended(last, [choice], len(self.choices)))

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        body = {**self.frame, "choices": [choice]}
        return {**body, "usage": None} if self.body.include_usage else body
