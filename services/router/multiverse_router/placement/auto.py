"""`auto`: as many paths now as the others on the worker stand, the rest elsewhere or later.

For a fork of k paths on home worker h, with b branches that run on a worker w and its measured
step_w(b), and expected path length p (tokens), the first of these that can be is done:

    1  all run at home                  step_h(b + k + c) <= all(h)
    2  all move to one worker w         step_w(b + k + c) + load / p <= all(w)
    3  all run at home                  the same, with half(h)
    4  all move to one worker w         the same, with half(w)
    5  n < k of them run at home        step_h(b + n + c) <= all(h); at least 1 while nothing of
                                        the request runs; the others wait

    all(w)   the slowest step that every other request on w stands (`slack`), and this one: MOST
             times its target
    half(w)  that more than half of those on w stand
    load     = (tokens loading at w + tokens of the prefix that w lacks) / prefill rate
    c        branches (`kept`), left for requests that come while a path runs

Paths that wait are asked for again whenever a branch on h ends, and after RETRY_S. They move only
while they are most of the fork, since those that ran at home are loaded at w by the join: a join
is where most of its paths are, and the request stays there. A move pays when load is less than
what the last path would wait for at home, (turns - 1) x p x step_h(b + n) with turns = k / n
rounded up, and when the fleet gains tokens by it: while the prefix loads, the branches at w stand
still, and the paths bring the more the less of a step each branch costs,

    tokens of the prefix that w lacks / prefill rate x b  <=  k x p x (step(b) - b x slope)

with slope = (step(b + k) - step(b)) / k. Without this a fleet that is full loads prefixes instead
of decoding. No move goes to a worker that has LOADING_MS of other prefixes to load, and none
leaves a home whose steps take longer than the target: it is itself where forks go. Of the workers
that could take a fork, that on which most branches run is asked first.

So forks gather. Those that run many paths stand slow steps; a request of one path does not, and
starts where steps are fast (below). Under load a fleet divides itself into some workers with many
branches, which do most of the tokens, and others with few. Rules 3 and 4 let that begin: where
forks are the larger part, one that would have to wait goes on, and fewer than half of the others
pay. While there is room for all, rules 1 and 2 hold and nobody does.

Fewer than GATHERS workers are too few to divide: rules 3 and 4 are left out there, and a fork moves
only to a worker that has no more branches than home then. But not for a fork that would never have
room beside another request, on whatever worker: it would wait, path by path, in any case,

    step_h(k + 1 + c) > SHARE x its target

A worker that has measured nothing yet is believed to have room, and to be as fast as another: it
will have measured soon. Where none has, load counts as in `prefix_affinity`.

States of a path: waiting -> running at home | running elsewhere. A running path is never
paused or moved; so what others stand looks p steps ahead. Waiting forks of one worker are asked
in the order of priority, then of slack, least first (`waiting`).

`auto` for requests picks the lowest of

    score(w) = 1000 x (tokens to load there + (1 + b) x tokens that w lacks) / prefill rate
               + ANSWER_TOKENS x (2 step(b + 1) - step(1))              milliseconds

which is how long it, and all others on w because of it, take longer than alone. A worker where
branches wait for room, or whose free cells do not hold the context, comes behind all others. A
request with a target T is refused when no worker can hold it: every fork can wait down to one
path, so a worker with r requests has room for one more while

    r = 0  or  step(r + 1) <= FILLED x T

It is refused, too, where of the first ASKED workers by score each has more than `late` of its
requests behind their targets already, and two at least: it would join them, and make more late.
Requests of a lower priority do not count.

Parameters: prefill_tokens_per_s 2000 (assumed: no worker reports it), answer_tokens 512, moves 4
(other workers that are asked for a fork), kept 1 (branches), late 1/8 (of the requests with a
target), RETRY_S 0.5 s, LOADING_MS 800 ms, GATHERS 4 (workers), FILLED 0.92, ASKED 4 (workers);
SHARE, RESERVE_MS and MOST in `slack`. Targets are in milliseconds a token, in the mean over an
answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

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
from multiverse_router.placement.slack import MOST, SHARE, late_share, paces_ms
from multiverse_router.placement.view import Fleet, WorkerView
from multiverse_shared.errors import CapacityExceeded

RETRY_S = 0.5
LOADING_MS = 800.0
GATHERS = 4
FILLED = 0.92
ASKED = 4


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """See the header."""

    prefill_tokens_per_s: float = 2000.0
    answer_tokens: float = 512.0  # for which it is slower, or slows others
    moves: int = 4
    kept: int = 1
    late: float = 1 / 8  # 1: nobody is refused because others are late


class AutoRoots(RootPolicy):
    """Where a request's first token comes soon, and the others slow it, and it them, the least."""

    def __init__(self, seed: int = 0, options: AutoOptions | None = None) -> None:
        self._shortlist = Shortlist(seed)
        self._options = options or AutoOptions()

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        found = self._shortlist.candidates(fleet, root.coverage)
        target = root.progress.target_ms if root.progress else None
        if target is not None:
            most = FILLED * target
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

        best = min(found, key=score)
        if target is None or self._keeps(fleet, best, root, now_s):
            return best.id
        for worker in nsmallest(ASKED, found, key=score)[1:]:
            if self._keeps(fleet, worker, root, now_s):
                return worker.id
        raise CapacityExceeded(
            f"too many requests are slower than their targets already where one of {target:g} ms a "
            "token could run; try again later"
        )

    def _keeps(self, fleet: Fleet, worker: WorkerView, root: Root, now_s: float) -> bool:
        """Whether few enough requests on a worker are behind their targets."""
        residents = fleet.residents(worker.id)
        return late_share(residents, root.progress, now_s) <= self._options.late


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
        at_home = self._stand(fleet, home, fork, now_s)
        now = self._room(home, fork, at_home.all)
        if now < fork.paths:
            taker = self._taker(fleet, home, fork, at_home, now, now_s)
            if taker is not None:
                return (taker,) * fork.paths
        now = max(now, 0 if fork.progress.running else 1)
        return (*[home.id] * now, *[None] * (fork.paths - now))

    def _taker(
        self,
        fleet: Fleet,
        home: WorkerView,
        fork: Fork,
        at_home: _Stand,
        now: int,
        now_s: float,
    ) -> str | None:
        """The worker that takes all paths, when home has room for `now` of them; None: nobody."""
        gathers = self._gathers(fleet, home, fork)  # rules 3 and 4
        half: str | None = None  # the first one where more than half stand it
        for load_ms, worker in self._offers(fleet, home, fork, now):
            stand, load = self._stand(fleet, worker, fork, now_s), load_ms / fork.path_tokens
            if self._room(worker, fork, stand.all - load) == fork.paths:
                return worker.id
            if half is None and self._room(worker, fork, stand.half - load) == fork.paths:
                half = worker.id
        if not gathers:
            return None
        return home.id if self._room(home, fork, at_home.half) == fork.paths else half

    def _offers(
        self, fleet: Fleet, home: WorkerView, fork: Fork, now: int
    ) -> list[tuple[float, WorkerView]]:
        """Workers that might take a fork, with the milliseconds until its prefix is there."""
        target = fork.progress.target_ms
        step = home.steps.ms(home.running + now)
        if target is not None and home.steps.ms(home.running) > target:
            return []
        if len(fleet.workers) == 1 or fork.paths < 2 * fork.progress.running:
            return []
        per_ms = self._options.prefill_tokens_per_s / 1000
        turns = math.ceil(fork.paths / max(1, now))
        pays_ms = (turns - 1) * fork.path_tokens * step
        most = math.inf if target is None else MOST * target
        gathers = self._gathers(fleet, home, fork)
        offers: list[tuple[float, WorkerView]] = []
        for worker in self._shortlist.candidates(fleet, fork.coverage, keep=home.id):
            loading = worker.loading / per_ms
            own_ms = (fork.tokens - fork.coverage.get(worker.id, 0)) / per_ms
            load_ms = loading + own_ms
            if (
                worker.id != home.id
                and (gathers or worker.running + fork.paths <= home.running)
                and not worker.waiting
                and worker.kv_free >= fork.tokens + fork.paths * fork.path_tokens
                and loading <= LOADING_MS
                and load_ms < pays_ms
                and own_ms * worker.running <= self._gained_ms(worker, fork)
                and self._room(worker, fork, most) == fork.paths
            ):
                offers.append((load_ms, worker))
        offers.sort(key=lambda offer: (-offer[1].running, offer[0], offer[1].id))
        return offers[: self._options.moves]

    def _gathers(self, fleet: Fleet, home: WorkerView, fork: Fork) -> bool:
        """Whether a fleet divides: it is large enough, or waiting would be for nothing."""
        target = fork.progress.target_ms
        if len(fleet.workers) >= GATHERS:
            return True
        beside = fork.paths + 1 + self._options.kept
        return target is not None and home.steps.ms(beside) > SHARE * target

    def _gained_ms(self, worker: WorkerView, fork: Fork) -> float:
        """Branch-milliseconds that the paths add to what a worker does, by how it slows."""
        steps, running, paths = worker.steps, worker.running, fork.paths
        if not steps:
            return math.inf
        slope = (steps.ms(running + paths) - steps.ms(running)) / paths
        return paths * fork.path_tokens * (steps.ms(running) - running * slope)

    def _stand(self, fleet: Fleet, worker: WorkerView, fork: Fork, now_s: float) -> _Stand:
        step = worker.steps.ms(worker.running)
        own, tokens = fork.progress, fork.path_tokens
        paces = paces_ms(fleet.residents(worker.id), own, tokens, step, now_s)
        most = math.inf if own.target_ms is None else MOST * own.target_ms
        if not paces:
            return _Stand(most, most)
        return _Stand(min(most, paces[0]), min(most, paces[len(paces) // 2]))

    def _room(self, worker: WorkerView, fork: Fork, budget_ms: float) -> int:
        """How many paths may begin on a worker, beside `kept` branches that may come."""
        if not worker.steps or math.isinf(budget_ms):
            return fork.paths
        others = worker.running + self._options.kept
        return max(0, worker.steps.most(budget_ms, others + fork.paths) - others)


class _Stand(NamedTuple):
    """The slowest steps, in milliseconds, that requests on a worker stand."""

    all: float
    half: float  # more than half of them
