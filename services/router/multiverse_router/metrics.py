"""What Prometheus reads of a router. Labels are bounded: routes, models, reasons; no user text."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PREFIX = "multiverse_router"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)
_PARALLELISM = (1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)


class RouterMetrics:
    """One registry for each application, so tests may have several."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter(
            "requests", "HTTP requests that ended", ("route", "status", "model")
        )
        self.calls = self._counter("calls", "gRPC calls that ended", ("method", "code"))
        self.request_seconds = self._histogram(
            "request_seconds", "from the first header to the end of the response", _SECONDS
        )
        self.in_flight = Gauge(
            f"{PREFIX}_answers_in_flight", "answers in the making", registry=self._registry
        )
        self.ready = Gauge(
            f"{PREFIX}_worker_connected", "1 while a worker takes new work", registry=self._registry
        )
        self.answers = self._counter(
            "answers", "answers that ended, by reason, kind of error, or `left`", ("model", "end")
        )
        self.forked = self._counter("answers_forked", "answers that forked at least once", _MODEL)
        self.forks = self._counter("forks", "blocks that were opened", _MODEL)
        self.paths_placed = self._counter(
            "paths_placed", "paths by the worker they began on, or moved to", ("model", "place")
        )
        self.joins = self._counter(
            "joins", "joins by where the worker had what they go on from", ("model", "source")
        )
        self.path_ends = self._counter("path_ends", "paths that ended", ("model", "reason"))
        self.irregular = self._counter(
            "irregular", "what broke the dialect's grammar", ("model", "kind")
        )
        self.tokens = self._counter(
            "tokens",
            "prompt, completion (written included), written, cached, reused",
            ("model", "kind"),
        )
        self.first_token = self._histogram(
            "time_to_first_token_seconds", "from the start of the answer", _SECONDS, _MODEL
        )
        self.token_seconds = self._histogram(
            "time_per_output_token_seconds",
            "from first to last token, by the tokens after the first, of all paths",
            _TOKEN_SECONDS,
            _MODEL,
        )
        self.parallelism = self._histogram(
            "parallelism", "tokens in all by tokens of the longest chain", _PARALLELISM, _MODEL
        )
        self.critical_path = self._histogram(
            "critical_path_seconds",
            "from first to last token: the chain of the slowest path of each block",
            _SECONDS,
            _MODEL,
        )
        self.critical_token = self._histogram(
            "time_per_critical_token_seconds",
            "from first to last token, by the tokens of the longest chain after the first",
            _TOKEN_SECONDS,
            _MODEL,
        )
        self.path_seconds = self._histogram(
            "path_seconds", "of a path, from the fork to its end", _SECONDS, _MODEL
        )
        self.path_spread = self._histogram(
            "path_spread_seconds",
            "from the end of a block's first path to the end of its last: all others wait",
            _SECONDS,
            _MODEL,
        )
        self.refused = self._counter("refused", "requests that were refused", ("reason",))
        self.left = self._counter(
            "left", "clients that went before their answer ended: `client`, `stalled`", ("how",)
        )

    def follow(self, in_flight: Callable[[], float], ready: Callable[[], float]) -> None:
        """Where gauges come from: read when asked, so they can't drift."""
        self.in_flight.set_function(in_flight)
        self.ready.set_function(ready)

    @property
    def registry(self) -> CollectorRegistry:
        return self._registry

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)

    def _counter(self, name: str, what: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"{PREFIX}_{name}", what, labels, registry=self._registry)

    def _histogram(
        self, name: str, what: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ("route",)
    ) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", what, labels, buckets=buckets, registry=self._registry)


_MODEL = ("model",)
