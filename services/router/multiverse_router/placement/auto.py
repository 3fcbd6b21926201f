"""`auto`: as many paths now as the others on the worker stand, the rest elsewhere or later.

For a fork of k paths on home worker h, with b branches that run there and its measured
step(b), expected path length p and budget(w) the slowest step that all others on w stand for
the next p steps (see `slack`):

    now     n = the largest n with  step(b + n) <= MARGIN x budget(h);
            at least 1 while nothing of the request runs
    moved   of the others, the i-th goes to another worker w, if there is one with
                step_w(b_w + 1) <= MARGIN x budget(w)                   a place
                load(w) <= the least slack on w                         it can be loaded there
                load(w) + back < wait(i)                                and that pays
            load(w) = (tokens of the prefix that w lacks) / prefill rate; 0 for the next one
            back    = p / prefill rate: the home worker loads the path at the join
            wait(i) = ceil(i / max(1, n + running)) x p x step(b + n)
            the w with the least load(w), then the fewest branches
    waits   what is left; asked for again whenever a branch on h ends, and after RETRY_S

A worker that has measured nothing yet is believed to have room: it will have measured soon.
A draining or unreachable home places nothing but what it must run.

States of a path: waiting -> running at home | running elsewhere. A running path is never
paused or moved; so the budget looks p steps ahead. Waiting forks of one worker are asked in the
order of priority, then of slack, least first (`waiting`).

`auto` for requests picks the lowest of

    score(w) = 1000 x (tokens that w lacks + tokens to load there) / prefill rate
               + ANSWER_TOKENS x step(b + 1)                            milliseconds

with the cost of KV that is not there: a worker whose free cells do not hold the context comes
behind all others.

Parameters: MARGIN 1 (share of the budget that is used), PREFILL_TOKENS_PER_S 2000 (assumed: no
worker reports it), MOVES 8 (workers that are looked at for a fork), ANSWER_TOKENS 512, RETRY_S
0.5 s. Targets are in milliseconds a token, in the mean over an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from multiverse_router.placement.least_load import load
from multiverse_router.placement.policy import (
    Coverage,
    Fork,
    Placement,
    Root,
    RootPolicy,
    SiblingPolicy,
)
from multiverse_router.placement.shortlist import Shortlist
from multiverse_router.placement.siblings import Local
from multiverse_router.placement.slack import budget_ms, least_slack_ms
from multiverse_router.placement.view import Fleet, WorkerView

RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """See the header."""

    margin: float = 1.0
    prefill_tokens_per_s: float = 2000.0
    answer_tokens: float = 512.0
    moves: int = 8


class AutoRoots(RootPolicy):
    """Where a request's first token comes soon, and the others slow it, and it them, the least."""

    def __init__(self, seed: int = 0, options: AutoOptions | None = None) -> None:
        self._shortlist = Shortlist(seed)
        self._options = options or AutoOptions()

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        def score(worker: WorkerView) -> tuple[bool, float, float, str]:
            lacking = root.tokens - root.coverage.get(worker.id, 0) + worker.loading
            ms = 1000 * lacking / self._options.prefill_tokens_per_s
            ms += self._options.answer_tokens * worker.steps.ms(worker.running + 1)
            full = worker.kv_total > 0 and worker.kv_free < root.tokens
            return full or worker.waiting > 0, ms, load(worker), worker.id

        return min(self._shortlist.candidates(fleet, root.coverage), key=score).id


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
        now = self._room(fleet, home, fork, fork.paths, now_s)
        if not now and not fork.progress.running:
            now = 1
        placed: list[str | None] = [home.id] * now
        if now < fork.paths and len(fleet.workers) > 1:
            placed += self._moved(fleet, home, fork, now, now_s)
        return (*placed, *[None] * (fork.paths - len(placed)))

    def _room(self, fleet: Fleet, worker: WorkerView, fork: Fork, most: int, now_s: float) -> int:
        """How many more branches the others on a worker stand, up to `most`."""
        budget = budget_ms(fleet.residents(worker.id), fork.progress, fork.path_tokens, now_s)
        if not worker.steps or math.isinf(budget):
            return most
        budget *= self._options.margin
        return max(0, worker.steps.most(budget, worker.running + most) - worker.running)

    def _moved(
        self, fleet: Fleet, home: WorkerView, fork: Fork, now: int, now_s: float
    ) -> list[str | None]:
        """Workers for paths behind the first `now`, as many as had better not wait."""
        rate = self._options.prefill_tokens_per_s / 1000
        back = fork.path_tokens / rate
        step = home.steps.ms(home.running + now)
        at_once = max(1, now + fork.progress.running)
        most = fork.paths - now
        moved: list[str | None] = []
        for load_ms, worker in self._elsewhere(fleet, home, fork, rate):
            room = self._room(fleet, worker, fork, most - len(moved), now_s)
            if not room or load_ms > least_slack_ms(
                fleet.residents(worker.id), fork.progress, now_s
            ):
                continue
            for _ in range(room):
                wait = math.ceil((len(moved) + 1) / at_once) * fork.path_tokens * step
                if load_ms + back >= wait:
                    break
                moved.append(worker.id)
                load_ms = 0.0
            if len(moved) == most:
                break
        return moved

    def _elsewhere(
        self, fleet: Fleet, home: WorkerView, fork: Fork, rate: float
    ) -> list[tuple[float, WorkerView]]:
        """The most promising other workers, with the milliseconds that loading takes there."""
        coverage: Coverage = fork.coverage
        found = [
            ((fork.tokens - coverage.get(worker.id, 0)) / rate, worker)
            for worker in self._shortlist.candidates(fleet, coverage, keep=home.id)
            if worker.id != home.id and not worker.waiting and worker.kv_free >= fork.tokens
        ]
        found.sort(key=lambda entry: (entry[0], load(entry[1]), entry[1].id))
        return found[: self._options.moves]
