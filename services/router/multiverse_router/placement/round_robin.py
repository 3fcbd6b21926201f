"""One worker after another, whatever they do: the baseline."""

from __future__ import annotations

from multiverse_router.placement.policy import Root, RootPolicy
from multiverse_router.placement.view import Fleet
from multiverse_shared.errors import WorkerUnavailable


class RoundRobin(RootPolicy):
    """State: the place of the last pick."""

    def __init__(self) -> None:
        self._last = -1

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        workers = fleet.workers
        for step in range(1, len(workers) + 1):
            place = (self._last + step) % len(workers)
            if workers[place].accepting:
                self._last = place
                return workers[place].id
        raise WorkerUnavailable("no worker accepts requests; try again later")
