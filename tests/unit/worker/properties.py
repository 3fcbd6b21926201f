"""Settings of property tests: the same examples each time, and no time limit of their own."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def examples(number: int) -> settings:
    """`number` examples. A failing one is shown as found: small cases have tests of their own."""
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
