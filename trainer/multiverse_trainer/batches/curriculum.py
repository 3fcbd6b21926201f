"""The mixture of renderings over the passes of a training (arXiv 2506.09991, section 5).

Pass p renders a share of the samples in parallel and the others in sequence; each pass takes every
sample once, in an order of its own. A pure function of seed and number of samples.
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


def draw_pass(seed: int, number: int, share: float, samples: int) -> list[Pick]:
    """The picks of pass `number` (from 0); round(share x samples) of them are parallel."""
    rng = Random(f"{seed}/{number}")
    order = list(range(samples))
    rng.shuffle(order)
    parallel = set(rng.sample(order, round(share * samples)))
    return [Pick(sample, sample in parallel) for sample in order]


def draw_passes(seed: int, shares: Sequence[float], samples: int) -> list[list[Pick]]:
    """All passes."""
    return [draw_pass(seed, number, share, samples) for number, share in enumerate(shares)]
