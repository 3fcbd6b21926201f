"""Drawing the next token from a row of logits.

In this order: the rules of `logit_rules` change logits x (penalties, bias, bans), then

    temperature 0: the id of the largest x, the lower one on a tie; else
    p(i) ~ w(i) = exp((x(i) - max x) / temperature)
    top-k: the k largest x
    top-p: of these, the fewest most probable whose w add up to top_p of the w of all of these
    min-p: of these, those with w >= min_p (the most probable id has w = 1)
    draw: the first id, in the order of ids, at which the sum of w exceeds u * (sum of all w)

Ties at a border go to the lower id. Ranks and sums are in float64, so what is left equals that of
a full sort. Randomness is counter-based: u of the draw with index i of a path is a function of
(seed, path, i), so a replay from any token goes on alike; in the order of ids, noise in the
logits moves borders between tokens by no more than itself. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from multiverse_worker.contract import Logits, Sampling
from multiverse_worker.logit_rules import LogitRules
from multiverse_worker.truncation import Indices, Wide, largest, nucleus, pick


class Sampler:
    """Draws the tokens of one branch; `seen` are the ids of its context that penalties count."""

    def __init__(self, sampling: Sampling, seen: Iterable[int] = ()) -> None:
        self._sampling = sampling
        self._rules = LogitRules(sampling, seen)

    def next(self, logits: Logits, taken: Sequence[int]) -> int:
        """The id drawn from `logits` [vocab] by a branch that has taken `taken`."""
        return draw(self._rules.apply(logits, taken), self._sampling, len(taken))

    def take(self, token: int) -> None:
        """The branch has taken `token`, drawn or scripted."""
        self._rules.take(token)


def draw(logits: Logits, sampling: Sampling, index: int) -> int:
    """The id of the branch's draw number `index`, from logits that the rules are applied to."""
    if sampling.temperature <= 0:
        return int(logits.argmax())
    ids, weights = distribution(logits, sampling)
    at = pick(weights, uniform(sampling.seed, sampling.stream, sampling.draws + index))
    return int(ids[at]) if ids is not None else at


def distribution(logits: Logits, sampling: Sampling) -> tuple[Indices | None, Wide]:
    """The ids that truncation leaves, ascending (None: all), and their weights."""
    ids: Indices | None = None
    peak = logits.max()
    if 0 < sampling.top_k < len(logits):
        ids = largest(logits, sampling.top_k)
        logits = logits[ids]
    with np.errstate(over="ignore"):  # a vanishing temperature: all but the largest weigh 0
        exponents = np.subtract(logits, peak, dtype=np.float64) / sampling.temperature
    weights = np.exp(exponents)
    if 0 < sampling.top_p < 1:
        kept = nucleus(exponents, weights, sampling.top_p)
        ids, weights = kept if ids is None else ids[kept], weights[kept]
    if sampling.min_p > 0:
        kept = np.flatnonzero(weights >= sampling.min_p)
        ids, weights = kept if ids is None else ids[kept], weights[kept]
    return ids, weights


def uniform(seed: int, stream: str, index: int) -> float:
    """A number in [0, 1) that depends on the three and on nothing else."""
    state = blake2b(digest_size=8, person=b"draw")
    state.update(seed.to_bytes(8, "little"))
    state.update(index.to_bytes(8, "little"))
    state.update(stream.encode())
    return (int.from_bytes(state.digest(), "little") >> 11) * 2.0**-53
