"""From what was seen of loads to figures: percentiles of a round, medians over rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.bench.router.load import Answer
from tests.bench.router.notes import Times

Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Seen:
    """One load of one round."""

    answers: list[Answer]  # by seed
    notes: Mapping[int, Times]  # of the far end, by seed

    def ttft_ms(self) -> list[float]:
        """Time to first token of the steady answers."""
        return [(a.first - a.sent) * 1000 for a in self.answers if a.steady]

    def outside_ms(self) -> dict[int, float]:
        """The part of it that was not spent in the far end, by seed."""
        found = {}
        for answer in self.answers:
            if answer.steady:
                arrived, written = self.notes[answer.seed]
                outside = (arrived - answer.sent) + (answer.first - written)
                found[answer.seed] = outside * 1000
        return found


def added(load: Seen, base: Seen) -> Figures:
    """What stands between adds to the first token, answer by answer, over the same load without."""
    own, other = load.outside_ms(), base.outside_ms()
    differences = [own[seed] - other[seed] for seed in own]
    return {
        "added_ttft_p50_ms": percentile(differences, 50),
        "added_ttft_p99_ms": percentile(differences, 99),
        "ttft_p50_ms": percentile(load.ttft_ms(), 50),
        "ttft_p99_ms": percentile(load.ttft_ms(), 99),
        "base_ttft_p50_ms": percentile(base.ttft_ms(), 50),
        "base_ttft_p99_ms": percentile(base.ttft_ms(), 99),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def medians(rounds: Sequence[Figures]) -> dict[str, float | list[float]]:
    """Of each figure its median over the rounds, and under `<name>_spread` [least, most]."""
    out: dict[str, float | list[float]] = {}
    for name in rounds[0]:
        values = [figures[name] for figures in rounds]
        out[name] = round(statistics.median(values), 3)
        out[f"{name}_spread"] = [round(min(values), 3), round(max(values), 3)]
    return out
