"""A run as one HTML page, with its plots in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from loadtest.plots import plots
from loadtest.sample import Sample

MEASURES = ("first_token_s", "token_s", "critical_token_s", "critical_path_s", "path_spread_s")
_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)


def write_report(
    path: Path,
    run: dict[str, Any],
    summary: dict[str, Any],
    samples: Sequence[Sample],
    faults: Sequence[str],
) -> None:
    """`run` says what was loaded; `faults` are the thresholds that were not kept."""
    drawn = plots(samples, max(summary["seconds"], 1.0))
    page = _PAGES.get_template("report.html.j2").render(
        run=run, summary=summary, faults=faults, plots=drawn, measures=MEASURES
    )
    path.write_text(page, "utf-8")
