"""What Prometheus is told, from load reports."""

from __future__ import annotations

import socket
from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Load, Totals
from multiverse_worker.metrics import WorkerMetrics
from multiverse_worker.status import Status, serve_status
from tests.unit.worker.client import Client, text
from tests.unit.worker.symbolic import symbolic_engine

TOTALS = Totals(20, 21, 22, 23, 24, 25, 26, 27)
LOAD = Load(
    running=1,
    waiting=2,
    leases=3,
    kv_cells_free=40,
    kv_cells=100,
    kv_cells_idle=30,
    kv_cells_leased=20,
    sequences=5,
    step_tokens=8,
    step_s=0.004,
    totals=TOTALS,
)
EMPTY = Load(0, 0, 0, 100, 100)


def told_of(metrics: WorkerMetrics, *, healthy: bool = True, ready: bool = True) -> Status:
    return Status(metrics.registry, is_healthy=lambda: healthy, is_ready=lambda: ready)


def samples(metrics: WorkerMetrics) -> dict[str, float]:
    """As a scraper reads them: name{label} -> value."""
    stop = serve_status(told_of(metrics), "127.0.0.1", port := free_port())
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    finally:
        stop()
    return {
        "".join([sample.name.removeprefix("multiverse_worker_"), *sorted(sample.labels.values())])
        if "_bucket" not in sample.name
        else f"{sample.name}<={sample.labels['le']}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_every_number_of_a_report_is_told() -> None:
    told = samples(WorkerMetrics(lambda: LOAD))
    told = {name: value for name, value in told.items() if not name.endswith("_created")}
    assert {name: value for name, value in told.items() if value} == {
        "kv_cellsfree": 40,
        "kv_cellsidle": 30,
        "kv_cellsleased": 20,
        "kv_cellsrunning": 10,
        "branchesrunning": 1,
        "brancheswaiting": 2,
        "leases": 3,
        "sequences": 5,
        "steps_total": 20,
        "tokens_totaldecoded": 21,
        "tokens_totalprefilled": 22,
        "tokens_totalreused": 23,
        "evictions_total": 24,
        "revocations_total": 25,
        "preemptions_total": 26,
        "failed_steps_total": 27,
    }


def test_each_step_is_observed_once() -> None:
    metrics = WorkerMetrics(lambda: EMPTY)
    metrics.stepped(LOAD)
    metrics.stepped(replace(LOAD, leases=9))  # no step: a lease was released
    metrics.stepped(replace(LOAD, totals=Totals(steps=21), step_tokens=2, step_s=0.3))
    metrics.stepped(replace(LOAD, totals=Totals(steps=22), step_tokens=0))  # computed nothing
    told = samples(metrics)
    assert (told["step_seconds_count"], told["batch_tokens_count"]) == (2, 2)
    assert told["batch_tokens_sum"] == 10
    assert told["step_seconds_sum"] == pytest.approx(0.304)
    assert told["multiverse_worker_step_seconds_bucket<=0.005"] == 1


def test_a_port_that_is_taken_is_an_error_that_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidRequest, match="METRICS_PORT") as caught:
            serve_status(told_of(WorkerMetrics(lambda: EMPTY)), "127.0.0.1", taken.getsockname()[1])
    assert caught.value.field == "metrics_port"


@pytest.mark.parametrize(
    ("healthy", "ready", "statuses"),
    [(True, True, (200, 200)), (True, False, (200, 503)), (False, False, (503, 503))],
)
def test_probes_are_told_apart(healthy: bool, ready: bool, statuses: tuple[int, int]) -> None:
    status = told_of(WorkerMetrics(lambda: EMPTY), healthy=healthy, ready=ready)
    stop = serve_status(status, "127.0.0.1", port := free_port())
    try:
        url = f"http://127.0.0.1:{port}"
        asked = tuple(httpx.get(f"{url}/{path}").status_code for path in ("health", "ready"))
        assert httpx.get(f"{url}/other").status_code == 404
    finally:
        stop()
    assert asked == statuses


def test_the_time_of_a_step_is_kept_by_the_number_of_branches_that_decode() -> None:
    with symbolic_engine() as engine:
        client = Client(engine)
        for number in range(3):
            client.start(text(number, number), request=f"r{number}", max_tokens=5)
        client.settle()
        client.run(text(9), max_tokens=5)
        step_ms = dict(engine.load().step_ms)
    assert set(step_ms) == {1, 3}
    assert all(0 < ms < 1000 for ms in step_ms.values())
