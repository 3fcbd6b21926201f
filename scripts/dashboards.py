"""Writes the Grafana dashboards of deploy/observability from the table of their panels.

    python scripts/dashboards.py

A panel is a title, a unit of Grafana, and expressions with their legends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "deploy" / "observability" / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
ROUTER = "multiverse_router_"
WORKER = "multiverse_worker_"


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


DASHBOARDS: dict[str, tuple[str, list[Panel]]] = {
    "multiverse-answers": (
        "Multiverse: answers",
        [
            quantiles("Time to first token", f"{ROUTER}time_to_first_token_seconds"),
            quantiles(
                "Time per token of the longest chain",
                f"{ROUTER}time_per_critical_token_seconds",
                "What a reader of the whole answer waits for.",
            ),
            quantiles(
                "Time per output token",
                f"{ROUTER}time_per_output_token_seconds",
                "Of all paths: those side by side make it smaller.",
            ),
            quantiles("Critical path", f"{ROUTER}critical_path_seconds"),
            one(
                "Answers by end",
                "reqps",
                rate(f"{ROUTER}answers_total", "end"),
                "{{end}}",
                "stop, length, deadline and left are no failures.",
            ),
            one(
                "Failing answers",
                "percentunit",
                "model:multiverse_failures:ratio5m",
                "{{model}}",
            ),
            one("Answers in flight", "short", f"{ROUTER}answers_in_flight", "{{instance}}"),
            one(
                "Tokens",
                "short",
                rate(f"{ROUTER}tokens_total", "kind"),
                "{{kind}}",
                "A second. cached: of prompts, found; reused: by paths and joins.",
            ),
            one(
                "HTTP requests",
                "reqps",
                rate(f"{ROUTER}requests_total", "route, status"),
                "{{route}} {{status}}",
            ),
            quantiles("HTTP requests: duration", f"{ROUTER}request_seconds", by="route"),
            one("gRPC calls", "reqps", rate(f"{ROUTER}calls_total", "method, code"), "{{code}}"),
            Panel(
                "Refused, and left",
                "reqps",
                (
                    (rate(f"{ROUTER}refused_total", "reason"), "refused: {{reason}}"),
                    (rate(f"{ROUTER}left_total", "how"), "left: {{how}}"),
                ),
            ),
        ],
    ),
    "multiverse-parallelism": (
        "Multiverse: parallelism",
        [
            one(
                "Activation",
                "percentunit",
                "model:multiverse_activation:ratio1h",
                "{{model}}",
                "Share of answers that forked, over an hour.",
            ),
            one(
                "Parallelism",
                "short",
                "model:multiverse_parallelism:mean1h",
                "{{model}}",
                "Tokens in all by tokens of the longest chain; mean over an hour.",
            ),
            one(
                "Malformed",
                "short",
                rate(f"{ROUTER}irregular_total", "model, kind"),
                "{{model}} {{kind}}",
                "What broke the grammar of the dialect, a second.",
            ),
            one("Forks", "ops", rate(f"{ROUTER}forks_total", "model"), "{{model}}"),
            one(
                "Paths by place",
                "ops",
                rate(f"{ROUTER}paths_placed_total", "place"),
                "{{place}}",
                "home: on the worker of their answer.",
            ),
            one(
                "Joins by source",
                "ops",
                rate(f"{ROUTER}joins_total", "source"),
                "{{source}}",
                "recomputed: a worker had lost what the join goes on from.",
            ),
            quantiles("Paths", f"{ROUTER}path_seconds", "From the fork to the end."),
            quantiles(
                "Spread of the paths of a block",
                f"{ROUTER}path_spread_seconds",
                "From the first end to the last.",
            ),
            one(
                "Paths by end",
                "ops",
                rate(f"{ROUTER}path_ends_total", "reason"),
                "{{reason}}",
            ),
            one(
                "Forked answers",
                "reqps",
                rate(f"{ROUTER}answers_forked_total", "model"),
                "{{model}}",
            ),
        ],
    ),
    "multiverse-workers": (
        "Multiverse: workers",
        [
            Panel(
                "Workers of routers",
                "short",
                (
                    (f"{ROUTER}worker_connected", "{{instance}} has one"),
                    (f"sum by (instance) ({ROUTER}worker_available)", "{{instance}} available"),
                    (f"sum by (instance) ({ROUTER}worker_draining)", "{{instance}} draining"),
                ),
            ),
            Panel(
                "Load by worker",
                "short",
                (
                    (f"sum by (worker) ({ROUTER}worker_answers)", "{{worker}} answers"),
                    (f"sum by (worker) ({ROUTER}worker_branches)", "{{worker}} branches"),
                    (f"max by (worker) ({ROUTER}worker_waiting_branches)", "{{worker}} waiting"),
                ),
                "As routers count it.",
            ),
            Panel(
                "Contexts by worker",
                "short",
                (
                    (f"sum by (worker) ({ROUTER}worker_context_tokens)", "{{worker}} tokens"),
                    (f"sum by (worker) ({ROUTER}worker_loading_tokens)", "{{worker}} loading"),
                ),
            ),
            one(
                "KV pool",
                "short",
                f"sum by (instance, use) ({WORKER}kv_cells)",
                "{{instance}} {{use}}",
                "Cells. idle: cache that makes room when it is needed.",
            ),
            Panel(
                "KV in use",
                "percentunit",
                (
                    ("instance:multiverse_kv_used:ratio", "{{instance}}"),
                    (f"1 - min by (worker) ({ROUTER}worker_kv_free_ratio)", "{{worker}}"),
                ),
            ),
            Panel(
                "Leases and sequences",
                "short",
                (
                    (f"{WORKER}leases", "{{instance}} leases"),
                    (f"{WORKER}sequences", "{{instance}} sequences"),
                ),
            ),
            one(
                "Branches",
                "short",
                f"sum by (instance, state) ({WORKER}branches)",
                "{{instance}} {{state}}",
            ),
            one(
                "Tokens by how they came",
                "short",
                rate(f"{WORKER}tokens_total", "instance, kind"),
                "{{instance}} {{kind}}",
            ),
            quantiles("Steps: duration", f"{WORKER}step_seconds", by="instance"),
            Panel(
                "Steps",
                "ops",
                (
                    (rate(f"{WORKER}steps_total", "instance"), "{{instance}}"),
                    (rate(f"{WORKER}failed_steps_total", "instance"), "{{instance}} failed"),
                ),
            ),
            one(
                "Tokens in a batch",
                "short",
                quantile(0.5, f"{WORKER}batch_tokens", "instance"),
                "p50 {{instance}}",
            ),
            Panel(
                "Pressure",
                "ops",
                (
                    (rate(f"{WORKER}evictions_total", "instance"), "{{instance}} evictions"),
                    (rate(f"{WORKER}revocations_total", "instance"), "{{instance}} revocations"),
                    (rate(f"{WORKER}preemptions_total", "instance"), "{{instance}} preemptions"),
                ),
                "Revoked leases and branches put back are computed again.",
            ),
            one(
                "Tier: tokens that came",
                "short",
                rate(f"{WORKER}tier_fetched_tokens_total", "instance"),
                "{{instance}}",
                "A second, from the prefix-cache tier: of paths that ran elsewhere.",
            ),
            one(
                "Tier: bytes",
                "Bps",
                rate(f"{WORKER}tier_bytes_total", "instance, way"),
                "{{instance}} {{way}}",
            ),
            Panel(
                "Tier: time",
                "s",
                (
                    (rate(f"{WORKER}tier_fetch_seconds_total", "instance"), "{{instance}} waited"),
                    (rate(f"{WORKER}tier_saved_seconds_total", "instance"), "{{instance}} saved"),
                ),
                "Seconds a second: branches waited for blocks; computing would have taken more.",
            ),
        ],
    ),
}


def panel(number: int, made: Panel) -> dict[str, Any]:
    place = {
        "h": HEIGHT,
        "w": WIDTH,
        "x": number % COLUMNS * WIDTH,
        "y": number // COLUMNS * HEIGHT,
    }
    targets = [
        {"datasource": SOURCE, "expr": query, "legendFormat": legend, "refId": chr(ord("A") + n)}
        for n, (query, legend) in enumerate(made.queries)
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": made.title,
        "description": made.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": made.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": targets,
    }


def dashboard(uid: str, title: str, panels: list[Panel]) -> dict[str, Any]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["multiverse"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{**source, "query": "prometheus"}]},
        "panels": [panel(number, made) for number, made in enumerate(panels)],
    }


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for uid, (title, panels) in DASHBOARDS.items():
        text = json.dumps(dashboard(uid, title, panels), indent=2) + "\n"
        (FOLDER / f"{uid}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
