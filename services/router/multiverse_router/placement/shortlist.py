"""Filter: which workers are worth a score.

All that accept work, in a fleet of up to MOST; of a larger one, those that hold most of the
context, and a random sample. The best of eight random workers is about as good as the best of
a thousand, costs the same whatever the size of the fleet, and several routers that know equally
little do not all run to the same worker (power of d choices: Mitzenmacher, 2001).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from itertools import islice
from random import Random

from multiverse_router.placement.policy import Coverage
from multiverse_router.placement.view import Fleet, WorkerView
from multiverse_shared.errors import WorkerUnavailable

MOST = 16  # workers of a fleet that all get a score
SAMPLED = 8  # of a larger one, beside
HOLDERS = 4  # that hold a part of the context
LOOKED_AT = 64  # holders, of a prefix that is everywhere


class Shortlist:
    """Draws candidates; deterministic in its seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def candidates(
        self, fleet: Fleet, coverage: Coverage, keep: str | None = None
    ) -> list[WorkerView]:
        """At least one, none twice; `keep` among them, even if it accepts nothing.

        WorkerUnavailable when there is none.
        """
        workers = fleet.workers
        home = fleet.worker(keep) if keep is not None else None
        chosen = {home.id: home} if home else {}
        if len(workers) <= MOST:
            offered = list(workers)
        else:
            places = self._random.sample(range(len(workers)), SAMPLED)
            offered = self._holders(fleet, coverage) + [workers[place] for place in places]
        for worker in offered:
            if worker.accepting:
                chosen.setdefault(worker.id, worker)
        if not chosen:  # none of a sample
            chosen = {worker.id: worker for worker in workers if worker.accepting}
        if not chosen:
            raise WorkerUnavailable("no worker accepts requests; try again later")
        return list(chosen.values())

    def _holders(self, fleet: Fleet, coverage: Coverage) -> list[WorkerView]:
        """Those of the best coverage; of very many that have some, a stretch at random."""
        known: Iterable[str] = coverage
        if len(coverage) > LOOKED_AT:
            begin = self._random.randrange(len(coverage) - LOOKED_AT + 1)
            known = islice(coverage, begin, begin + LOOKED_AT)
        best = nlargest(HOLDERS, known, key=coverage.__getitem__)
        found = (fleet.worker(id) for id in best)
        return [worker for worker in found if worker is not None]
