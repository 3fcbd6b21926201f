"""Everybody who looks on while one answer is made, as one."""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_router.answer_meter import AnswerMeter
from multiverse_router.answer_trace import AnswerTrace
from multiverse_router.events import AnswerEvent
from multiverse_router.observer import JoinSource, Observer, Place


@dataclass(frozen=True, slots=True)
class AnswerObserver(Observer):
    """`saw` each event in order, then `ended` once, however it ended."""

    meter: AnswerMeter
    trace: AnswerTrace

    def saw(self, event: AnswerEvent) -> None:
        self.meter.saw(event)
        self.trace.saw(event)

    def ended(self) -> None:
        self.meter.ended()
        self.trace.ended()

    def traceparent(self, path: str) -> str:
        return self.trace.traceparent(path)

    def placed(self, path: str, place: Place) -> None:
        self.meter.placed(place)

    def joined(self, path: str, source: JoinSource) -> None:
        self.meter.joined(source)
