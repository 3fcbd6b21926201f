"""Samples of the curator, and what its teachers cost.

Every API replica tells the same sums, of the one database; money is that of the prices in the
table of teachers.
"""

from __future__ import annotations

from scripts.dashboards.panel import CURATOR, Panel, one, quantiles, rate

SPENT = f"sum(max by (state) ({CURATOR}spent))"
BEFORE = f"sum(max by (state) ({CURATOR}spent offset 1h))"
CONVERTED = f'max({CURATOR}samples{{state="converted"}})'

TITLE = "Multiverse: curator"
PANELS: list[Panel] = [
    one(
        "Teachers: cost",
        "none",
        f"max by (state) ({CURATOR}spent)",
        "{{state}}",
        "Of all jobs, by the state that they are in.",
    ),
    one(
        "Teachers: cost in an hour",
        "none",
        f"{SPENT} - ({BEFORE} or vector(0))",
        "in the last hour",
    ),
    one(
        "Teachers: cost of a converted sample",
        "none",
        f"{SPENT} / ({CONVERTED} > 0)",
        "mean of all jobs",
    ),
    one(
        "Teachers: tokens",
        "short",
        f"max by (state, way) ({CURATOR}tokens)",
        "{{state}} {{way}}",
    ),
    one(
        "Teachers: calls",
        "ops",
        rate(f"{CURATOR}calls_total", "teacher, end"),
        "{{teacher}} {{end}}",
    ),
    quantiles("Teachers: duration of a call", f"{CURATOR}call_seconds", by="teacher"),
    one("Samples", "short", f"max by (state) ({CURATOR}samples)", "{{state}}"),
    one("Jobs", "short", f"max by (state) ({CURATOR}jobs)", "{{state}}"),
    Panel(
        "Samples handed out",
        "ops",
        (
            (rate(f"{CURATOR}handed_out_total", "instance"), "{{instance}}"),
            (rate(f"{CURATOR}expired_total", "instance"), "{{instance}} expired"),
        ),
        "expired: claims of workers that were not heard of.",
    ),
]
