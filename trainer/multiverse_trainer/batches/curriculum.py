"""The mixture of renderings over the passes of a training (arXiv 2506.09991, section 5).

Pass p renders a share of the samples in parallel and the others in sequence; each pass takes every
sample once, in an order of its own or in that of the data. A pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

PUBLISHED_SHARES = (0.0, 0.0, 0.1, 0.5, 0.5, 0.9, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Pick:
    """Sample number `sample`, in parallel or not."""

    sample: int
    parallel: bool


def draw_pass(
    seed: int, number: int, share: float, samples: int, *, shuffled: bool = True
) -> list[Pick]:
    """The picks of pass `number` (from 0); round(share x samples) of them are parallel."""
    rng = Random(f"{seed}/{number}")
    order = list(range(samples))
    if shuffled:
        rng.shuffle(order)
    parallel = set(rng.sample(order, round(share * samples)))
    return [Pick(sample, sample in parallel) for sample in order]


def draw_passes(
    seed: int, shares: Sequence[float], samples: int, *, shuffled: bool = True
) -> list[list[Pick]]:
    """All passes."""
    return [
        draw_pass(seed, number, share, samples, shuffled=shuffled)
        for number, share in enumerate(shares)
    ]
