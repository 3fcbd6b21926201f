"""What Prometheus is told of a worker. All labels are from fixed sets.

Gauges and counters are read from the latest load report when they are asked for; only the
two histograms cost anything per step. Knows no engine and no gRPC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from multiverse_worker.contract import Load, TierTotals

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_TOKENS = tuple(float(1 << power) for power in range(14))
PREFIX = "multiverse_worker_"


class LoadCollector(Collector):
    """The latest load as metrics."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

    def collect(self) -> Iterator[Metric]:
        load = self._load()
        totals = load.totals
        free, idle, leased = load.kv_cells_free, load.kv_cells_idle, load.kv_cells_leased
        cells = {"free": free, "idle": idle, "leased": leased}
        cells["running"] = load.kv_cells - sum(cells.values())
        branches = {"running": load.running, "waiting": load.waiting}
        tokens = {
            "decoded": totals.decoded_tokens,
            "prefilled": totals.prefilled_tokens,
            "reused": totals.reused_tokens,
        }
        yield _family(GaugeMetricFamily, "kv_cells", "KV cells by what holds them", cells, "use")
        yield _family(GaugeMetricFamily, "branches", "Branches", branches, "state")
        yield _family(GaugeMetricFamily, "leases", "Leases", load.leases)
        yield _family(GaugeMetricFamily, "sequences", "Sequences in use", load.sequences)
        yield _family(CounterMetricFamily, "tokens", "Tokens by how they came", tokens, "kind")
        for name, text, value in (
            ("steps", "Engine steps", totals.steps),
            ("evictions", "Idle contexts evicted", totals.evictions),
            ("revocations", "Leases revoked for room", totals.revocations),
            ("preemptions", "Branches put back into the queue", totals.preemptions),
            ("failed_steps", "Batches that could not be computed", totals.failed_steps),
        ):
            yield _family(CounterMetricFamily, name, text, value)
        yield from _tier(totals.tier)


def _tier(tier: TierTotals) -> Iterator[Metric]:
    blocks = {"fetched": tier.fetched_blocks, "stored": tier.stored_blocks}
    carried = {"fetched": tier.fetched_bytes, "stored": tier.stored_bytes}
    host = {"fetched": tier.host_fetched_tokens, "stored": tier.host_stored_tokens}
    tokens, unstored = dict(tier.recomputed_tokens), dict(tier.unstored)
    for name, text, value, label in (
        ("blocks", "Blocks that were put to use, or put into the tier", blocks, "way"),
        ("bytes", "Bytes of blocks that came from the tier, or went there", carried, "way"),
        ("host_tokens", "Tokens of prompts that came from host memory, or went there", host, "way"),
        ("recomputed_tokens", "Tokens of paths that did not come", tokens, "cause"),
        ("recomputes", "Pieces of paths that did not come", dict(tier.recomputed), "cause"),
        ("unstored_blocks", "Blocks that the tier did not take", unstored, "cause"),
    ):
        yield _family(CounterMetricFamily, f"tier_{name}", text, value, label)
    for name, text, seconds in (
        ("fetch_seconds", "Branches waited for blocks", tier.fetch_s),
        ("saved_seconds", "Computing would have taken beyond that", tier.saved_s),
    ):
        yield _family(CounterMetricFamily, f"tier_{name}", text, seconds)
    yield _family(
        CounterMetricFamily, "tier_fetched_tokens", "Tokens that came", tier.fetched_tokens
    )


def _family(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    values: float | dict[str, int],
    label: str = "",
) -> Metric:
    if not isinstance(values, dict):
        return kind(PREFIX + name, text, value=values)
    family = kind(PREFIX + name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


class WorkerMetrics:
    """`load` gives the latest report; `stepped` is to be called with each one."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(LoadCollector(load))
        self._steps = load().totals.steps
        self._seconds = Histogram(
            PREFIX + "step_seconds", "Duration of a step", buckets=_SECONDS, registry=self.registry
        )
        self._tokens = Histogram(
            PREFIX + "batch_tokens", "Tokens in a batch", buckets=_TOKENS, registry=self.registry
        )

    def stepped(self, load: Load) -> None:
        if load.totals.steps > self._steps and load.step_tokens:
            self._seconds.observe(load.step_s)
            self._tokens.observe(load.step_tokens)
        self._steps = load.totals.steps
