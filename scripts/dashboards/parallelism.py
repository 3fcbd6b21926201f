"""Whether answers fork, and what becomes of their paths."""

from __future__ import annotations

from scripts.dashboards.panel import ROUTER, Panel, one, quantiles, rate

TITLE = "Multiverse: parallelism"
PANELS: list[Panel] = [
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
        "fetched: some of it from the tier; recomputed: a worker had lost what it goes on from.",
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
]
