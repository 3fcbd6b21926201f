"""What Prometheus is told of each worker, as this router knows it.

Read when asked, from the workers that are there then: who has left has no series any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from multiverse_router.fleet.fleet import Fleet
from multiverse_router.fleet.worker import Worker

PREFIX = "multiverse_router_worker_"
LABEL = "worker"


def _waiting(worker: Worker) -> float:
    load = worker.link.load
    return load.waiting if load else 0.0


def _kv_free(worker: Worker) -> float:
    """1 where it never reported: nothing is known to be taken."""
    load = worker.link.load
    if load is None or not load.kv_cells:
        return 1.0
    return float((load.kv_cells_free + load.kv_cells_idle) / load.kv_cells)


GAUGES: dict[str, tuple[str, Callable[[Worker], float]]] = {
    "available": ("1 while it takes new work", lambda worker: worker.available),
    "draining": (
        "1 while it ends what it has, and takes nothing new",
        lambda worker: worker.link.draining or worker.leaving,
    ),
    "answers": ("answers that are at home there", lambda worker: worker.requests),
    "branches": ("branches of this router in flight there", lambda worker: worker.link.branches),
    "context_tokens": ("tokens of their contexts", lambda worker: worker.link.tokens),
    "loading_tokens": ("of these, still to be computed", lambda worker: worker.link.loading),
    "waiting_branches": ("branches without room there, of all routers, as it reports", _waiting),
    "kv_free_ratio": ("share of its KV cells that are free or idle, as it reports", _kv_free),
}


class FleetCollector(Collector):
    """Register it once for each application."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        workers = self._fleet.workers
        for name, (text, value) in GAUGES.items():
            family = GaugeMetricFamily(PREFIX + name, text, labels=[LABEL])
            for worker in workers:
                family.add_metric([worker.address], float(value(worker)))
            yield family
