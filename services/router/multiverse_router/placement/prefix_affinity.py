"""The worker that holds most of the context, unless it has too much to do.

    score = tokens of the context that it lacks + LOAD_TOKENS x load, in tokens

A worker that holds the whole of a popular prefix is left as soon as it has (tokens of the prefix)
/ LOAD_TOKENS more branches than another: the prefix is then computed there too, once, and from
then on two workers hold it. So a hot prefix spreads over as many workers as its load needs.
"""

from __future__ import annotations

from multiverse_router.placement.least_load import load
from multiverse_router.placement.policy import Root, RootPolicy
from multiverse_router.placement.shortlist import Shortlist
from multiverse_router.placement.view import Fleet, WorkerView

LOAD_TOKENS = 64.0  # tokens of prefill that one branch less to share a step with is worth


class PrefixAffinity(RootPolicy):
    """No state but the seed of the shortlist."""

    def __init__(self, seed: int = 0, load_tokens: float = LOAD_TOKENS) -> None:
        self._shortlist = Shortlist(seed)
        self._load_tokens = load_tokens

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        def score(worker: WorkerView) -> tuple[float, str]:
            lacking = root.tokens - root.coverage.get(worker.id, 0)
            return lacking + self._load_tokens * load(worker), worker.id

        return min(self._shortlist.candidates(fleet, root.coverage), key=score).id
