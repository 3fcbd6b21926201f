"""Siblings without a plan: all at home, or all over the fleet."""

from __future__ import annotations

from multiverse_router.placement.least_load import load
from multiverse_router.placement.policy import Fork, Placement, SiblingPolicy
from multiverse_router.placement.prefix_affinity import LOAD_TOKENS
from multiverse_router.placement.shortlist import Shortlist
from multiverse_router.placement.view import Fleet


class Spread(SiblingPolicy):
    """All at once, each where the fewest branches run; the home worker first among equals.

        score = load + (tokens of the prefix that the worker lacks) / LOAD_TOKENS

    A worker that takes one path has the prefix for the next one, so a fork goes to few workers
    rather than to many.
    """

    def __init__(self, seed: int = 0) -> None:
        self._shortlist = Shortlist(seed)

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        coverage = {**fork.coverage, fork.home: fork.tokens}
        found = self._shortlist.candidates(fleet, coverage, keep=fork.home)
        lacking = {
            worker.id: (fork.tokens - coverage.get(worker.id, 0)) / LOAD_TOKENS for worker in found
        }
        scores = {worker.id: load(worker) + lacking[worker.id] for worker in found}
        placed: list[str] = []
        for _ in range(fork.paths):
            best = min(scores, key=lambda id: (scores[id], id != fork.home, id))
            placed.append(best)
            scores[best] += 1 - lacking[best]
            lacking[best] = 0
        return tuple(placed)


class Local(SiblingPolicy):
    """All on the home worker, at once: nothing is moved. Without a home: as `Spread`."""

    def __init__(self, seed: int = 0) -> None:
        self._homeless = Spread(seed)

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        if fleet.worker(fork.home) is None:
            return self._homeless.fork(fleet, fork, now_s)
        return (fork.home,) * fork.paths
