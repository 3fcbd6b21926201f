"""Plays the router against an SGLang engine, and checks what it says against the oracle."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

from multiverse_shared.tree import Context, normalise
from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.conformance.oracle import Oracle, lay_out
from tests.unit.worker.client import Client, Outcome

STALL_S = 5.0
NEAR_TIE = 1e-3
_streams = itertools.count(1)


class Player(Client):
    """No step takes memory checks here: SGLang makes them itself and ends when they fail."""

    engine: Any

    def __init__(self, engine: SglangEngine) -> None:
        super().__init__(engine, next(_streams), limit=1 << 40)  # type: ignore[arg-type]
        self._progress = (time.monotonic(), 0)

    def check(self) -> None:
        """Something is computed, or said, at least every few seconds."""
        now, state = time.monotonic(), hash((len(self.outcomes), self.steps_computed))
        if state != self._progress[1] or self.engine.idle:
            self._progress = (now, state)
        assert now - self._progress[0] < STALL_S, "the engine stalls"

    @property
    def steps_computed(self) -> int:
        return int(self.engine.load().totals.steps)

    def assert_nothing_is_held(self) -> None:
        self.engine.drop_cached()
        load = self.engine.load()
        assert (load.running, load.waiting, load.leases) == (0, 0, 0)
        assert load.kv_cells_free == load.kv_cells


def assert_greedy(oracle: Oracle, context: Context, outcome: Outcome) -> None:
    """Each sampled token is the oracle's, up to the first near-tie.

    `context` is what the branch started from, in full.
    """
    layout = lay_out(normalise((*context, _text(outcome))))
    rows = oracle.logits(layout)
    first = len(layout.ids) - len(outcome.ids)
    for offset, token in enumerate(outcome.ids):
        row = rows[first + offset - 1]
        second, best = np.sort(row)[-2:]
        if best - second < NEAR_TIE:
            return
        assert token == int(row.argmax()), f"token {offset} of {outcome.ids}"


def _text(outcome: Outcome) -> Any:
    from multiverse_shared.tree import Text

    return Text(outcome.ids)
