"""What Prometheus reads of a curator. Labels are bounded: routes, states, stages, teachers.

The API tells what is in the database, whichever worker did it; a worker tells what it does itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from multiverse_curator.store.views import Views

PREFIX = "multiverse_curator"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class ApiMetrics:
    """One registry for each application, so tests may have several."""

    def __init__(self, views: Views) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            f"{PREFIX}_requests",
            "HTTP requests that ended",
            ("route", "status"),
            registry=self._registry,
        )
        self.request_seconds = Histogram(
            f"{PREFIX}_request_seconds",
            "from the first header to the end of the response",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Totals(views))

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)


class _Totals(Collector):
    """Sums over all jobs, read when asked."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(f"{PREFIX}_jobs", "jobs by state", labels=["state"])
        spent = GaugeMetricFamily(f"{PREFIX}_spent", "money, by state of the job", labels=["state"])
        tokens = GaugeMetricFamily(
            f"{PREFIX}_tokens", "tokens of teachers, by state of the job", labels=["state", "way"]
        )
        for state, count, _, cost, sent, received in self._views.totals():
            jobs.add_metric([state], count)
            spent.add_metric([state], cost)
            tokens.add_metric([state, "input"], sent)
            tokens.add_metric([state, "output"], received)
        samples = GaugeMetricFamily(f"{PREFIX}_samples", "samples by state", labels=["state"])
        for name, many in self._views.sample_totals().items():
            samples.add_metric([name], many)
        yield from (jobs, spent, tokens, samples)


class WorkerMetrics:
    """Of one worker process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.stages = self._counter("stages", "stages that were worked on", ("stage", "end"))
        self.stage_seconds = Histogram(
            f"{PREFIX}_stage_seconds",
            "of one stage of one sample, with all pauses",
            ("stage",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.calls = self._counter("calls", "calls to teachers", ("teacher", "end"))
        self.call_seconds = Histogram(
            f"{PREFIX}_call_seconds",
            "of one call to a teacher",
            ("teacher",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.handed_out = self._counter("handed_out", "samples that were put into the queue", ())
        self.expired = self._counter("expired", "claims of workers that were not heard of", ())
        self.running = Gauge(
            f"{PREFIX}_stages_running", "stages being worked on", registry=self.registry
        )

    def _counter(self, name: str, what: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"{PREFIX}_{name}", what, labels, registry=self.registry)
