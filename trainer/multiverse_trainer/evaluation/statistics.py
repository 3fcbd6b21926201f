"""Means with intervals, by bootstrap over questions.

Questions are what is drawn: the answers to one question (several seeds, two models) belong
together, so each question counts once, with the mean of its seeds. Percentile intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
LEVEL = 0.95
_AT_ONCE = 1 << 22  # indices held in memory
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the interval that covers it at `LEVEL`."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, object]:
        return {"value": round(self.value, 5), "ci": [round(self.low, 5), round(self.high, 5)]}


def mean(values_q: Values, seed: int = 0) -> Estimate:
    """Over questions; values_q: [questions]. ValueError when there are none."""
    return ratio(values_q, np.ones_like(values_q), seed)


def paired(values_q: Values, baseline_q: Values, seed: int = 0) -> Estimate:
    """The mean difference to a baseline that answered the same questions."""
    return mean(values_q - baseline_q, seed)


def ratio(over_q: Values, under_q: Values, seed: int = 0) -> Estimate:
    """Sum over sum, both of the same questions: times against times, tokens against tokens."""
    if not len(over_q):
        raise ValueError("there is no question to take a mean over")
    rng = np.random.default_rng(seed)
    found: list[Values] = []
    left = RESAMPLES
    while left:
        rows = min(left, max(1, _AT_ONCE // len(over_q)))
        drawn_rq = rng.integers(0, len(over_q), size=(rows, len(over_q)))
        found.append(over_q[drawn_rq].sum(axis=1) / under_q[drawn_rq].sum(axis=1))
        left -= rows
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return Estimate(float(over_q.sum() / under_q.sum()), float(low), float(high))
