"""`auto`: as many paths now as the others on the worker stand, the rest elsewhere or later.

For a fork of k paths on home worker h, with b branches that run there and its measured
step(b), expected path length p and budget(w) the slowest step that all others on w stand while
a path runs, p steps (see `slack`):

    now      n paths run at home:  step(b + n + c) <= budget(h),
             at least 1 while nothing of the request runs;
             c branches (`kept`) are left for requests that come while a path runs
    moved    m paths run on other workers; each of them finds there
                 step_w(b_w + 1 + c) + load(w) / p <= budget(w)               a place,
                 load(w) + back < wait(i)                                 that pays,
             and all of them can be loaded at home when they come back:
                 step(b + n + c) + m x back / p <= budget(h)
    waits    what is left; asked for again whenever a branch on h ends, and after RETRY_S

             load(w) = (tokens of the prefix that w lacks) / prefill rate; 0 for its next path
             back    = p / prefill rate: the home worker loads a path at the join
             wait(i) = ceil(i / max(1, n + running)) x p x step(b + n), of the i-th one
             of all (n, m) the one with most paths that run, and of these the largest n;
             workers in the order of load(w), then of what runs there

A worker that has measured nothing yet is believed to have room, and to be as fast as another: it
will have measured soon. Where none has, load counts as in `prefix_affinity`.

States of a path: waiting -> running at home | running elsewhere. A running path is never
paused or moved; so the budget looks p steps ahead. Waiting forks of one worker are asked in the
order of priority, then of slack, least first (`waiting`).

`auto` for requests picks the lowest of

    score(w) = 1000 x (tokens to load there + (1 + b) x tokens that w lacks) / prefill rate
               + ANSWER_TOKENS x (2 step(b + 1) - step(1))              milliseconds

which is how long it, and all others on w because of it, take longer than alone. A worker where
branches wait for room, or whose free cells do not hold the context, comes behind all others. A
request with a target T is refused when no worker can hold it: every fork can wait down to one
path, so a worker with r requests has room for one more while

    r = 0  or  step(r + 1) <= SHARE x T

Parameters: prefill_tokens_per_s 2000 (assumed: no worker reports it), answer_tokens 512, moves 8
(other workers that are looked at for a fork), kept 1 (branches), RETRY_S 0.5 s; SHARE and
RESERVE_MS in `slack`. Targets are in milliseconds a token, in the mean over an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from multiverse_router.placement.least_load import load
from multiverse_router.placement.policy import (
    Fork,
    Placement,
    Root,
    RootPolicy,
    SiblingPolicy,
)
from multiverse_router.placement.prefix_affinity import LOAD_TOKENS
from multiverse_router.placement.shortlist import Shortlist
from multiverse_router.placement.siblings import Local
from multiverse_router.placement.slack import SHARE, budget_ms
from multiverse_router.placement.view import Fleet, WorkerView
from multiverse_shared.errors import CapacityExceeded

RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """See the header."""

    prefill_tokens_per_s: float = 2000.0
    answer_tokens: float = 512.0  # for which it is slower, or slows others
    moves: int = 8
    kept: int = 1


class AutoRoots(RootPolicy):
    """Where a request's first token comes soon, and the others slow it, and it them, the least."""

    def __init__(self, seed: int = 0, options: AutoOptions | None = None) -> None:
        self._shortlist = Shortlist(seed)
        self._options = options or AutoOptions()

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        found = self._shortlist.candidates(fleet, root.coverage)
        target = root.progress.target_ms if root.progress else None
        if target is not None:
            most = SHARE * target
            found = [w for w in found if not w.requests or w.steps.ms(w.requests + 1) <= most]
            if not found:
                raise CapacityExceeded(
                    f"no worker can serve one more request at {target:g} ms a token; try again "
                    "later, or ask for less"
                )

        known = next((worker.steps for worker in found if worker.steps), None)

        def score(worker: WorkerView) -> tuple[bool, float, float, str]:
            lacking = root.tokens - root.coverage.get(worker.id, 0)
            held_up = worker.loading + lacking * (1 + worker.running)
            ms = 1000 * held_up / self._options.prefill_tokens_per_s
            curve = worker.steps or known
            if curve:
                steps = 2 * curve.ms(worker.running + 1) - curve.ms(1)
                ms += self._options.answer_tokens * steps
            else:
                ms += 1000 * LOAD_TOKENS * load(worker) / self._options.prefill_tokens_per_s
            full = worker.kv_total > 0 and worker.kv_free < root.tokens
            return full or worker.waiting > 0, ms, load(worker), worker.id

        return min(found, key=score).id


class AutoSiblings(SiblingPolicy):
    """No state but the seed of the shortlist."""

    def __init__(self, seed: int = 0, options: AutoOptions | None = None) -> None:
        self._shortlist = Shortlist(seed)
        self._options = options or AutoOptions()
        self._homeless = Local(seed)

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        home = fleet.worker(fork.home)
        if home is None:
            return self._homeless.fork(fleet, fork, now_s)
        budget = self._budget(fleet, home, fork, now_s)
        least = 0 if fork.progress.running else 1
        now = max(least, _room(home, fork.paths, budget, self._options.kept))
        moved: list[str] = []
        if now < fork.paths and len(fleet.workers) > 1:
            now, moved = self._divide(fleet, home, fork, budget, (least, now), now_s)
        waiting = fork.paths - now - len(moved)
        return (*[home.id] * now, *moved, *[None] * waiting)

    def _budget(self, fleet: Fleet, worker: WorkerView, fork: Fork, now_s: float) -> float:
        return budget_ms(fleet.residents(worker.id), fork.progress, fork.path_tokens, now_s)

    def _divide(
        self,
        fleet: Fleet,
        home: WorkerView,
        fork: Fork,
        budget: float,
        bounds: tuple[int, int],
        now_s: float,
    ) -> tuple[int, list[str]]:
        """How many paths run at home, within `bounds`, and where others run."""
        least, most = bounds
        back = 1000 * fork.path_tokens / self._options.prefill_tokens_per_s

        def fitting(now: int) -> int:
            """How many can be loaded at home when they come back."""
            spare = budget - home.steps.ms(home.running + now + self._options.kept)
            return max(0, int(spare * fork.path_tokens / back))

        best: tuple[int, list[str]] = (most, [])
        if not fitting(least):
            return best
        places = self._places(fleet, home, fork, fork.paths - least, now_s)
        for now in range(most, least - 1, -1):
            step = home.steps.ms(home.running + now)
            moved: list[str] = []
            for load_ms, id in places[: min(fork.paths - now, fitting(now))]:
                turns = math.ceil((len(moved) + 1) / max(1, now + fork.progress.running))
                if load_ms + back >= turns * fork.path_tokens * step:
                    break
                moved.append(id)
            if now + len(moved) > best[0] + len(best[1]):
                best = now, moved
        return best

    def _places(
        self, fleet: Fleet, home: WorkerView, fork: Fork, most: int, now_s: float
    ) -> list[tuple[float, str]]:
        """Places on other workers, with the milliseconds that loading the prefix takes there."""
        rate = self._options.prefill_tokens_per_s / 1000
        coverage = fork.coverage
        others = [
            ((fork.tokens - coverage.get(worker.id, 0)) / rate, worker)
            for worker in self._shortlist.candidates(fleet, coverage, keep=home.id)
            if worker.id != home.id and not worker.waiting and worker.kv_free >= fork.tokens
        ]
        others.sort(key=lambda other: (other[0], load(other[1]), other[1].id))
        places: list[tuple[float, str]] = []
        for load_ms, worker in others[: self._options.moves]:
            budget = self._budget(fleet, worker, fork, now_s) - load_ms / fork.path_tokens
            room = _room(worker, most - len(places), budget, self._options.kept)
            places += [(load_ms if n == 0 else 0.0, worker.id) for n in range(room)]
            if len(places) == most:
                break
        return places


def _room(worker: WorkerView, most: int, budget: float, kept: int) -> int:
    """How many more branches may run on a worker, up to `most`, beside `kept` that may come."""
    if not worker.steps or math.isinf(budget):
        return most
    others = worker.running + kept
    return max(0, worker.steps.most(budget, others + most) - others)
