"""A whole answer: its events gathered for clients that do not stream."""

from __future__ import annotations

from dataclasses import dataclass, field

from multiverse_router.answers import Answers
from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.linear import Linear
from multiverse_router.request import AnswerRequest
from multiverse_shared.errors import STATUSES


@dataclass(slots=True)
class Outcome:
    """Either an error, or text, usage and the reason of the end."""

    text: str = ""
    usage: UsageEvent | None = None
    finish: FinishEvent | None = None
    error: ErrorEvent | None = None
    events: list[AnswerEvent] = field(default_factory=list)
    told: list[TextEvent] = field(default_factory=list)  # what `text` is made of, in its order

    @classmethod
    async def of(cls, answers: Answers, wanted: AnswerRequest, *, tags: bool) -> Outcome:
        """Run `wanted` to its end."""
        outcome, linear = cls(), Linear(tags=tags)
        async with answers.answer(wanted) as events:
            async for event in events:
                outcome.events.append(event)
                outcome.told += linear.ready(event)
                match event:
                    case UsageEvent():
                        outcome.usage = event
                    case FinishEvent():
                        outcome.finish = event
                    case ErrorEvent():
                        outcome.error = event
        outcome.text = "".join(event.delta for event in outcome.told)
        return outcome

    @property
    def status(self) -> int:
        """HTTP status."""
        if self.error is None:
            return 200
        return next(s.http for s in STATUSES.values() if s.kind == self.error.kind)
