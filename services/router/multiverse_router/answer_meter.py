"""Counts one answer from its events, whatever API it came through."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import Counter

from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.metrics import RouterMetrics
from multiverse_router.observer import JoinSource, Place

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
        self._counters: dict[str, Counter] = {}  # of tokens, by kind
        self.tokens = 0  # of prompt and answer
        self._forked = False
        self._critical = 0
        self._begins: dict[str, float] = {}  # of paths that run
        self._ends: dict[str, float] = {}  # of paths whose block is open
        self._end = LEFT

    def saw(self, event: AnswerEvent) -> None:
        match event:
            case TextEvent():
                self._text(event)
            case StartEvent():
                self.tokens += event.prompt_tokens
                self._count("prompt", event.prompt_tokens)
            case ForkEvent():
                self._forked = True
                self._metrics.forks.labels(self._model).inc()
                self._begins |= dict.fromkeys(event.paths, self._clock())
            case PathEndEvent():
                self._path_end(event)
            case JoinEvent():
                ends = [self._ends.pop(path, self._clock()) for path in event.paths]
                self._metrics.path_spread.labels(self._model).observe(max(ends) - min(ends))
            case UsageEvent():
                self._usage(event)
            case FinishEvent():
                self._end = event.reason
            case ErrorEvent():
                self._end = event.kind

    def placed(self, place: Place) -> None:
        self._metrics.paths_placed.labels(self._model, place.value).inc()

    def joined(self, source: JoinSource) -> None:
        self._metrics.joins.labels(self._model, source.value).inc()

    def ended(self) -> None:
        self._metrics.answers.labels(self._model, self._end).inc()
        if self._forked:
            self._metrics.forked.labels(self._model).inc()
        if self._first is not None and self._tokens > 1:
            each = (self._last - self._first) / (self._tokens - 1)
            self._metrics.token_seconds.labels(self._model).observe(each)

        if self._first is not None and self._critical > 1:
            seconds = self._last - self._first
            self._metrics.critical_path.labels(self._model).observe(seconds)
            each = seconds / (self._critical - 1)
            self._metrics.critical_token.labels(self._model).observe(each)

    def _path_end(self, event: PathEndEvent) -> None:
        self._metrics.path_ends.labels(self._model, event.reason).inc()
        ended = self._clock()
        begun = self._begins.pop(event.path, ended)
        self._ends[event.path] = ended
        self._metrics.path_seconds.labels(self._model).observe(ended - begun)

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
        self.tokens += count
        self._count("completion", count)
        if event.kind == "written":
            self._count("written", count)

    def _usage(self, usage: UsageEvent) -> None:
        self._count("cached", usage.cached_tokens)
        self._count("reused", usage.reused_tokens)
        self._critical = usage.critical_path_tokens
        self._metrics.parallelism.labels(self._model).observe(usage.parallelism)
        for kind, times in usage.irregular.items():
            self._metrics.irregular.labels(self._model, kind).inc(times)

    def _count(self, kind: str, tokens: int) -> None:
        counter = self._counters.get(kind)
        if counter is None:  # looked up once for an answer, as this is done for each token
            counter = self._counters[kind] = self._metrics.tokens.labels(self._model, kind)
        counter.inc(tokens)
