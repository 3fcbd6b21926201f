"""Load, memory and steps of workers, and the tier."""

from __future__ import annotations

from scripts.dashboards.panel import ROUTER, WORKER, Panel, one, quantile, quantiles, rate

TITLE = "Multiverse: workers"
PANELS: list[Panel] = [
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
]
