"""The worker with the least to do.

    score = branches that run there + branches that wait there + LOADING x tokens to load

No state but the seed of the shortlist.
"""

from __future__ import annotations

from multiverse_router.placement.policy import Root, RootPolicy
from multiverse_router.placement.shortlist import Shortlist
from multiverse_router.placement.view import Fleet, WorkerView

LOADING = 1 / 512  # branches that a token to load counts as: a batch of them is one more


def load(worker: WorkerView) -> float:
    """In branches. One that waits counts twice: it runs nowhere, and will."""
    return worker.running + worker.waiting + LOADING * worker.loading


class LeastLoad(RootPolicy):
    """Of equals, the one with most room in its pool."""

    def __init__(self, seed: int = 0) -> None:
        self._shortlist = Shortlist(seed)

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        found = self._shortlist.candidates(fleet, {})
        return min(found, key=lambda worker: (load(worker), -worker.kv_free, worker.id)).id
