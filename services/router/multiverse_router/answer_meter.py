"""Counts one answer from its events, whatever API it came through."""

from __future__ import annotations

import time
from collections.abc import Callable

from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    ForkEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.metrics import RouterMetrics

LEFT = "left"


class AnswerMeter:
    """`saw` each event in order, then `ended` once, however it ended."""

    def __init__(
        self, metrics: RouterMetrics, model: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._model = model
        self._clock = clock
        self._begun = clock()
        self._first: float | None = None
        self._last = 0.0
        self._tokens = 0
        self._forked = False
        self._end = LEFT

    def saw(self, event: AnswerEvent) -> None:
        match event:
            case TextEvent():
                self._text(event)
            case StartEvent():
                self._count("prompt", event.prompt_tokens)
            case ForkEvent():
                self._forked = True
                self._metrics.forks.labels(self._model).inc()
            case PathEndEvent():
                self._metrics.path_ends.labels(self._model, event.reason).inc()
            case UsageEvent():
                self._usage(event)
            case FinishEvent():
                self._end = event.reason
            case ErrorEvent():
                self._end = event.kind

    def ended(self) -> None:
        self._metrics.answers.labels(self._model, self._end).inc()
        if self._forked:
            self._metrics.forked.labels(self._model).inc()
        if self._first is not None and self._tokens > 1:
            each = (self._last - self._first) / (self._tokens - 1)
            self._metrics.token_seconds.labels(self._model).observe(each)

    def _text(self, event: TextEvent) -> None:
        count = len(event.token_ids)
        if not count:
            return
        self._last = self._clock()
        if self._first is None:
            self._first = self._last
            waited = self._last - self._begun
            self._metrics.first_token.labels(self._model).observe(waited)
        self._tokens += count
        self._count("completion", count)
        if event.kind == "written":
            self._count("written", count)

    def _usage(self, usage: UsageEvent) -> None:
        self._count("cached", usage.cached_tokens)
        self._count("reused", usage.reused_tokens)
        self._metrics.parallelism.labels(self._model).observe(usage.parallelism)
        for kind, times in usage.irregular.items():
            self._metrics.irregular.labels(self._model, kind).inc(times)

    def _count(self, kind: str, tokens: int) -> None:
        self._metrics.tokens.labels(self._model, kind).inc(tokens)
