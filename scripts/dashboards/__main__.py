"""Writes the Grafana dashboards of deploy/observability from the tables of their panels.

python -m scripts.dashboards
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.dashboards import answers, curator, parallelism, workers
from scripts.dashboards.panel import Panel

FOLDER = Path(__file__).parents[2] / "deploy" / "observability" / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
DASHBOARDS = {
    "multiverse-answers": (answers.TITLE, answers.PANELS),
    "multiverse-curator": (curator.TITLE, curator.PANELS),
    "multiverse-parallelism": (parallelism.TITLE, parallelism.PANELS),
    "multiverse-workers": (workers.TITLE, workers.PANELS),
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
