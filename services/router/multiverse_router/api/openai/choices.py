"""The answers of one request, each told in linear order, its thoughts apart from what it says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from multiverse_router.answers import Answers
from multiverse_router.api.openai.bodies import OpenAIDecoding
from multiverse_router.api.openai.errors import event_error
from multiverse_router.api.streaming import sse
from multiverse_router.event_queue import EventQueue
from multiverse_router.events import (
    THINK,
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.linear import Linear
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings
from multiverse_router.thinking import Thinking
from multiverse_shared.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer: all of it thought, or all of it said."""

    thought: bool
    told: tuple[TextEvent, ...]

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.told)


@dataclass(slots=True)
class Choice:
    """One answer while it is told."""

    keep_tags: bool
    thinking: Thinking | None = None  # None: all of it is said
    thinks: bool = False
    parts: list[Part] = field(default_factory=list)
    usage: UsageEvent | None = None
    finish: FinishEvent | None = None
    error: ErrorEvent | None = None
    reasoning_tokens: int = 0
    _linear: Linear = field(default_factory=Linear)

    def tell(self, event: AnswerEvent) -> list[Part]:
        """What may be said now; it is also kept in `parts`."""
        match event:
            case UsageEvent():
                self.usage = event
            case FinishEvent():
                self.finish = event
            case ErrorEvent():
                self.error = event
        sorted_out = list(self._sorted(self._linear.ready(event)))
        parts = [
            Part(thought, tuple(told for _, told in group))
            for thought, group in groupby(sorted_out, key=lambda pair: pair[0])
        ]
        self.parts += parts
        return parts

    def _sorted(self, told: Sequence[TextEvent]) -> Iterator[tuple[bool, TextEvent]]:
        for event in told:
            if self.thinking and event.kind == THINK:
                self.thinks = event.token_ids[0] == self.thinking.opens
                self.reasoning_tokens += len(event.token_ids)
                yield True, replace(event, delta="")  # belongs to neither text
                continue
            if self.thinks:
                self.reasoning_tokens += len(event.token_ids)
            if self.keep_tags or event.kind not in ("tag", "written"):
                yield self.thinks, event

    def text(self, *, thought: bool) -> str:
        return "".join(part.text for part in self.parts if part.thought is thought)

    @property
    def told(self) -> Iterator[TextEvent]:
        """All of it, in order."""
        return (event for part in self.parts for event in part.told)

    @property
    def reason(self) -> str:
        """As OpenAI calls it."""
        assert self.finish
        return self.finish.reason if self.finish.reason == "stop" else "length"

    @property
    def extension(self) -> dict[str, Any]:
        """What stands under `multiverse`."""
        usage, finish = self.usage, self.finish
        assert usage
        assert finish
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


def choices_of(
    requests: Sequence[AnswerRequest], model: ServedModel, *, keep_tags: bool, thoughts: bool = True
) -> list[Choice]:
    """One for each request, with nothing told yet; without `thoughts` all is said."""
    thinking = model.thinking if thoughts else None
    return [
        Choice(keep_tags, thinking, bool(thinking and thinking.begun(request.prompt)))
        for request in requests
    ]


async def tell_all(
    answers: Answers, requests: Sequence[AnswerRequest], choices: Sequence[Choice]
) -> ErrorEvent | None:
    """Run all requests to their end, or to the first failure."""
    async with answers.choices(requests) as events:
        async for index, event in events:
            choices[index].tell(event)
            if isinstance(event, ErrorEvent):
                return event
    return None


async def written(
    events: EventQueue[tuple[int, AnswerEvent]],
    said: Callable[[int, AnswerEvent], Iterator[str]],
) -> AsyncIterator[tuple[str, bool]]:
    """What is `said` of events that are there at once, in one piece; true behind a failure."""
    async for piece in events.pieces():
        texts: list[str] = []
        for index, event in piece:
            texts += said(index, event)
            if isinstance(event, ErrorEvent):
                texts.append(sse(event_error(event), "error"))
                yield "".join(texts), True
                return
        yield "".join(texts), False


def extended(body: dict[str, Any], choices: Sequence[Choice], n: int) -> dict[str, Any]:
    """`body` with what is said of `choices`: of the only answer, or (`n` above 1) in each."""
    if n == 1:
        return {**body, "multiverse": choices[0].extension}
    for told, choice in zip(body["choices"], choices, strict=True):
        told["multiverse"] = choice.extension
    return body


def usage_of(choices: Sequence[Choice], per_prompt: int = 1) -> dict[str, Any]:
    """Tokens of all choices together; a prompt counts once, whatever the number of its answers."""
    usages = [choice.usage for choice in choices if choice.usage]
    prompts = usages[::per_prompt]
    prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
    completion_tokens = sum(usage.completion_tokens for usage in usages)
    cached_tokens = sum(usage.cached_tokens for usage in prompts)
    reasoning_tokens = sum(choice.reasoning_tokens for choice in choices)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
    }


def alternatives(request: AnswerRequest, n: int) -> list[AnswerRequest]:
    """`n` requests for answers of their own; the first one is what is given if only one is asked.

    Each has a seed that follows from the request's.
    """
    return [
        replace(
            request,
            id=f"{request.id}-{index}" if index else request.id,
            sampling=replace(request.sampling, seed=_seed(request.sampling.seed, index)),
        )
        for index in range(n)
    ]


def _seed(seed: int, index: int) -> int:
    if index == 0:
        return seed
    digest = hashlib.sha256(f"{seed}.{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def check_choices(body: OpenAIDecoding, prompts: int, settings: RouterSettings) -> None:
    """InvalidRequest when more answers are asked for than one request may have."""
    if body.n * prompts > settings.most_choices:
        asked = f"n is {body.n}" + (f" for each of {prompts} prompts" if prompts > 1 else "")
        raise InvalidRequest(f"{asked}; {settings.most_choices} answers are allowed", field="n")
