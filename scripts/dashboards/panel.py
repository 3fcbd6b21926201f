"""A panel: a title, a unit of Grafana, and expressions with their legends."""

from __future__ import annotations

from typing import NamedTuple

ROUTER = "multiverse_router_"
WORKER = "multiverse_worker_"
CURATOR = "multiverse_curator_"


class Panel(NamedTuple):
    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    text: str = ""


def rate(metric: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))"


def quantile(share: float, metric: str, by: str = "model") -> str:
    buckets = f"rate({metric}_bucket[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({by}, le) ({buckets}))"


def quantiles(title: str, metric: str, text: str = "", by: str = "model") -> Panel:
    shares = ((0.5, "p50"), (0.99, "p99"))
    queries = tuple((quantile(s, metric, by), f"{name} {{{{{by}}}}}") for s, name in shares)
    return Panel(title, "s", queries, text)


def one(title: str, unit: str, query: str, legend: str, text: str = "") -> Panel:
    return Panel(title, unit, ((query, legend),), text)
