"""The figures of a run, from its samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from loadtest.sample import Outcome, Sample

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ABUSE = "abuse"


@dataclass(frozen=True, slots=True)
class Target:
    """What a good answer is: what its user would not call slow."""

    first_token_s: float
    critical_token_s: float

    def met(self, sample: Sample) -> bool:
        first, each = sample.first_token_s, sample.critical_token_s
        return (
            sample.outcome is Outcome.OK
            and first is not None
            and first <= self.first_token_s
            and (each is None or each <= self.critical_token_s)
        )


def summary(samples: Sequence[Sample], seconds: float, target: Target) -> dict[str, Any]:
    """All of a run. Times of answers are those of users that wait for them."""
    waited = [sample for sample in samples if sample.api != ABUSE]
    outcomes = Counter(sample.outcome.value for sample in samples)
    users = sorted({sample.user for sample in samples})
    good = [sample for sample in waited if target.met(sample)]
    return {
        "seconds": round(seconds, 1),
        "requests": len(samples),
        "failures": sum(map(_failed, samples)),
        "outcomes": {outcome.value: outcomes[outcome.value] for outcome in Outcome},
        "requests_per_s": round(len(samples) / seconds, 2),
        "tokens_per_s": round(sum(sample.tokens for sample in samples) / seconds, 1),
        **times(waited),
        "goodput": {
            "first_token_s": target.first_token_s,
            "critical_token_s": target.critical_token_s,
            "share": round(len(good) / len(waited), 4) if waited else None,
            "requests_per_s": round(len(good) / seconds, 2),
            "tokens_per_s": round(sum(sample.tokens for sample in good) / seconds, 1),
        },
        "by_user": {
            user: {
                "requests": sum(sample.user == user for sample in samples),
                "failures": sum(sample.user == user and _failed(sample) for sample in samples),
                **times([sample for sample in samples if sample.user == user]),
            }
            for user in users
        },
        "errors": dict(Counter(sample.error for sample in samples if sample.error).most_common(20)),
    }


def _failed(sample: Sample) -> bool:
    return sample.outcome not in (Outcome.OK, Outcome.UNFINISHED)


def times(samples: Iterable[Sample]) -> dict[str, Any]:
    """Seconds, by quantile; None where nothing of the kind was seen."""
    ended = [sample for sample in samples if sample.outcome is Outcome.OK]
    parallelism = [sample.parallelism for sample in ended if sample.parallelism is not None]
    return {
        "first_token_s": quantiles(sample.first_token_s for sample in ended),
        "token_s": quantiles(sample.token_s for sample in ended),
        "critical_token_s": quantiles(sample.critical_token_s for sample in ended),
        "critical_path_s": quantiles(sample.decode_s or None for sample in ended),
        "path_s": quantiles(each for sample in ended for each in sample.path_s),
        "path_spread_s": quantiles(each for sample in ended for each in sample.spread_s),
        "parallelism": round(fmean(parallelism), 3) if parallelism else None,
    }


def quantiles(values: Iterable[float | None]) -> dict[str, float | None]:
    """By nearest rank."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return dict.fromkeys(QUANTILES)
    return {
        name: round(known[max(0, ceil(share * len(known)) - 1)], 6)
        for name, share in QUANTILES.items()
    }
