"""docs/operations.md says what the code says: metrics, limits. Its settings are generated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge, Histogram

from multiverse_router.api.door import MOST_HEADER_BYTES, MOST_HEADERS
from multiverse_router.api.json_check import MOST_LEVELS
from multiverse_router.fleet.metrics import GAUGES, LABEL, PREFIX
from multiverse_router.metrics import RouterMetrics

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")


def test_every_metric_has_its_row_with_its_labels() -> None:
    table = PAGE.partition("## Metrics")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]*) \|", table, re.MULTILINE)
    told = {name: set(re.findall(r"`([a-z]+)`", labels)) for name, labels in rows}
    workers = {f"{PREFIX}{name}": {LABEL} for name in GAUGES}
    assert told == shown_labels(RouterMetrics()) | workers


def shown_labels(metrics: RouterMetrics) -> dict[str, set[str]]:
    """Every metric with its labels, by the name that Prometheus shows."""
    shown = {}
    for metric in vars(metrics).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            name = metric._name + ("_total" if isinstance(metric, Counter) else "")
            shown[name] = set(metric._labelnames)
    return shown


@pytest.mark.parametrize(
    "limit", [f"{MOST_HEADERS} headers", f"{MOST_HEADER_BYTES >> 10} KiB", f"{MOST_LEVELS} levels"]
)
def test_limits_of_the_code_are_those_of_the_page(limit: str) -> None:
    assert limit in PAGE
