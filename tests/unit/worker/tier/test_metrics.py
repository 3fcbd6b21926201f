"""What came of the tier is told to Prometheus, by cause."""

from __future__ import annotations

from prometheus_client import generate_latest

from multiverse_worker.contract import Load, Totals
from multiverse_worker.metrics import WorkerMetrics
from multiverse_worker.tier.counts import Cause, TierCounts


def test_counts_by_cause_and_way_are_told() -> None:
    counts = TierCounts(fetched_blocks=3, fetched_bytes=900, stored_blocks=2, stored_bytes=500)
    counts.fetched_tokens, counts.fetch_s, counts.saved_s = 130, 0.25, 1.5
    counts.host_fetched_tokens, counts.host_stored_tokens = 70, 90
    counts.recompute(Cause.MISS, 64)
    counts.recompute(Cause.MISS, 20)
    counts.recompute(Cause.CORRUPT, 7)
    counts.unstored[Cause.FULL] += 4
    load = Load(0, 0, 0, 10, 10, totals=Totals(tier=counts.totals))
    told = generate_latest(WorkerMetrics(lambda: load).registry).decode()
    for line in (
        'tier_blocks_total{way="fetched"} 3.0',
        'tier_bytes_total{way="stored"} 500.0',
        "tier_fetched_tokens_total 130.0",
        'tier_host_tokens_total{way="fetched"} 70.0',
        'tier_host_tokens_total{way="stored"} 90.0',
        "tier_fetch_seconds_total 0.25",
        "tier_saved_seconds_total 1.5",
        'tier_recomputes_total{cause="miss"} 2.0',
        'tier_recomputed_tokens_total{cause="miss"} 84.0',
        'tier_recomputed_tokens_total{cause="corrupt"} 7.0',
        'tier_unstored_blocks_total{cause="full"} 4.0',
    ):
        assert f"multiverse_worker_{line}\n" in told
