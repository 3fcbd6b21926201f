"""What readers of answers wait for, and how answers end."""

from __future__ import annotations

from scripts.dashboards.panel import ROUTER, Panel, one, quantiles, rate

TITLE = "Multiverse: answers"
PANELS: list[Panel] = [
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
]
