"""What is shown of each worker: for as long as it is in the fleet, and not after."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.fleet.metrics import GAUGES, LABEL, PREFIX, FleetCollector
from tests.unit.router.hand_fed import HandFedLink, fleet_of


def shown(fleet: Fleet) -> dict[str, dict[str, float]]:
    """Values by worker and metric, as a scraper reads them."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(fleet))
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            worker = found.setdefault(sample.labels[LABEL], {})
            worker[sample.name.removeprefix(PREFIX)] = sample.value
    return found


def test_a_worker_shows_what_the_router_knows_and_what_it_reports() -> None:
    link = HandFedLink(address="w:1")
    fleet = fleet_of(link)
    link.load = pb.WatchLoadResponse(waiting=3, kv_cells=100, kv_cells_free=20, kv_cells_idle=30)
    [worker] = fleet.workers
    worker.requests = 2
    values = shown(fleet)["w:1"]
    assert values.keys() == GAUGES.keys()
    assert values["answers"] == 2
    assert values["waiting_branches"] == 3
    assert values["kv_free_ratio"] == 0.5
    assert values["available"] == 1
    assert values["draining"] == 0


async def test_a_worker_that_has_left_has_no_series() -> None:
    fleet = fleet_of(HandFedLink(address="w:1"))
    fleet.add(HandFedLink(address="w:2"))
    assert shown(fleet).keys() == {"w:1", "w:2"}
    async with asyncio.TaskGroup() as tasks:
        fleet.reconcile(["w:2"], tasks)
    assert shown(fleet).keys() == {"w:2"}
