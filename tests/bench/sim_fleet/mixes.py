"""What arrives: the shapes of answers, their prompts, and when they come. Seeded.

A shape is compiled to a program: numbers of tokens to decode, and forks with the programs of
their paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeAlias

from multiverse_worker.engines.sim.shapes import (
    BlockShape,
    PathShape,
    TreeDistribution,
    recorded_shapes,
)

FAMILIES = 64  # of prompts: each begins with a prefix of its own
PREFIX_TOKENS = (256, 1024)
QUESTION_TOKENS = (50, 350)  # of a prompt, behind its prefix
ZIPF = 1.1

Paths: TypeAlias = "tuple[Program, ...]"
Program: TypeAlias = "tuple[int | Paths, ...]"


@dataclass(frozen=True, slots=True)
class Answer:
    """A program and its sizes in tokens."""

    program: Program
    tokens: int
    critical: int
    in_paths: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request."""

    at_s: float
    family: int
    prefix: int  # tokens of its prompt that its family shares
    question: int  # and of its own
    answer: Answer


@dataclass(frozen=True, slots=True)
class Mix:
    """Answers as they are drawn, and what they are like in the mean."""

    name: str
    draw: Callable[[Random], Answer]

    def mean(self) -> Answer:
        """Of 4,000 draws; the program is empty."""
        rng = Random(0)
        drawn = [self.draw(rng) for _ in range(4000)]

        def of(size: Callable[[Answer], int]) -> int:
            return round(sum(map(size, drawn)) / len(drawn))

        return Answer(
            (), of(lambda a: a.tokens), of(lambda a: a.critical), of(lambda a: a.in_paths)
        )


def compiled(shape: PathShape) -> Answer:
    """What has to be decoded, in order; plans are decoded with the text before them."""
    program: list[int | Paths] = []
    pending = tokens = critical = in_paths = 0
    for part in shape:
        if isinstance(part, BlockShape):
            paths = [compiled(path) for path in part.paths]
            pending += max(1, sum(part.outlines))
            program += [pending, tuple(path.program for path in paths)]
            tokens += pending + sum(path.tokens for path in paths)
            critical += pending + max(path.critical for path in paths)
            in_paths += sum(path.tokens for path in paths)
            pending = part.conclusion
        else:
            pending += part
    pending = max(1, pending)
    return Answer((*program, pending), tokens + pending, critical + pending, in_paths)


_FORKING = TreeDistribution(
    paths=(4, 8),
    blocks=(2, 2),
    text=(40, 80),
    outline=(4, 12),
    path=(60, 180),
    conclusion=(40, 80),
)
_PLAIN = TreeDistribution(depth=0, path=(80, 360))


def _fork_heavy(rng: Random) -> Answer:
    """Half of the answers fork twice into 4 to 8 paths, half are plain: 70% of tokens in paths."""
    return compiled((_FORKING if rng.random() < 0.5 else _PLAIN).draw(rng))


@cache
def _recorded() -> tuple[Answer, ...]:
    return tuple(compiled(shape) for shape in recorded_shapes())


MIXES = {
    "forkheavy": Mix("forkheavy", _fork_heavy),
    "traces": Mix("traces", lambda rng: rng.choice(_recorded())),
}

BURST_S = 20.0  # mean length of a burst, and of the calm between two
BURST = 1.6  # times the mean rate inside of one; between them the rest


def arrivals(mix: Mix, per_s: float, seed: int, bursty: bool = False) -> Iterator[Arrival]:
    """Requests without an end. Poisson; or with a rate that jumps between two levels."""
    rng = Random(seed)
    prefixes = [Random(seed * 1000 + family).randint(*PREFIX_TOKENS) for family in range(FAMILIES)]
    weights = [1 / (1 + family) ** ZIPF for family in range(FAMILIES)]
    families = range(FAMILIES)
    now, burst, turn = 0.0, False, math.inf
    if bursty:
        turn = rng.expovariate(1 / BURST_S)
    while True:
        rate = per_s * ((BURST if burst else 2 - BURST) if bursty else 1.0)
        gap = rng.expovariate(rate)
        if now + gap > turn:  # no memory: draw again from the turn on
            now, burst, turn = turn, not burst, turn + rng.expovariate(1 / BURST_S)
            continue
        now += gap
        family = rng.choices(families, weights)[0]
        question = rng.randint(*QUESTION_TOKENS)
        yield Arrival(now, family, prefixes[family], question, mix.draw(rng))
