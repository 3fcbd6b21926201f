"""Plays the router against an engine, without threads: starts branches and steps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from multiverse_shared.tree import Text
from multiverse_worker.contract import BranchId, Finish, Ids, Logits, Start
from multiverse_worker.engines.sim.engine import SimEngine
from multiverse_worker.leases import LeaseBook

if TYPE_CHECKING:  # its library need not be there
    from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine

AnyEngine: TypeAlias = "LlamaCppEngine | SimEngine"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that an engine said of one branch."""

    start: Start
    ids: Ids
    logprobs: tuple[float, ...]
    finish: Finish


class Client:
    """Drives one engine. `steps` counts; nothing may take more than `limit` of them."""

    def __init__(self, engine: AnyEngine, stream: int = 1, limit: int = 4000) -> None:
        self.engine = engine
        self.stream = stream
        self.limit = limit
        self.steps = 0
        self._numbers = itertools.count()
        self._said: dict[BranchId, tuple[Ids, tuple[float, ...]]] = {}
        self._starts: dict[BranchId, Start] = {}
        self._waiting: dict[BranchId, asyncio.Future[Outcome]] = {}
        self.outcomes: dict[BranchId, Outcome] = {}

    def branch(self) -> BranchId:
        return BranchId(self.stream, next(self._numbers))

    def start(self, *context: Text | Any, request: str = "r", **fields: Any) -> BranchId:
        """Queue a branch; `max_tokens` is 0 unless said."""
        fields.setdefault("max_tokens", 0)
        start = Start(self.branch(), request, tuple(context), **fields)
        self.begin(start)
        return start.branch

    def begin(self, start: Start) -> None:
        self._starts[start.branch] = start
        self._said[start.branch] = ((), ())
        self.engine.start(start)

    def step(self) -> None:
        """One step; what it said is collected, and the books must add up behind it."""
        self.steps += 1
        assert self.steps <= self.limit, "the engine makes no progress"
        for update in self.engine.step():
            ids, logprobs = self._said[update.branch]
            ids, logprobs = ids + update.ids, logprobs + update.logprobs
            self._said[update.branch] = (ids, logprobs)
            if update.finish:
                assert update.branch not in self.outcomes, "a branch ended twice"
                start = self._starts[update.branch]
                outcome = Outcome(start, ids, logprobs, update.finish)
                self.outcomes[update.branch] = outcome
                if update.branch in self._waiting:
                    self._waiting.pop(update.branch).set_result(outcome)
        self.check()

    def check(self) -> None:
        """The engine's books add up; llama.cpp's are checked elsewhere."""
        if isinstance(self.engine, SimEngine):
            self.engine.cache.check()
            assert sum(self.engine.account()) == self.engine.info.kv_cells

    def release(self, lease: str) -> None:
        self.engine.release(lease, self.stream)

    def said(self, branch: BranchId) -> Ids:
        return self._said[branch][0]

    def outcome(self, branch: BranchId) -> Outcome:
        """Step until the branch has ended."""
        while branch not in self.outcomes:
            self.step()
        return self.outcomes[branch]

    def run(self, *context: Text | Any, **fields: Any) -> Outcome:
        return self.outcome(self.start(*context, **fields))

    def settle(self) -> None:
        """Step until nothing runs."""
        while not self.engine.idle:
            self.step()

    def drive(self, *programs: Coroutine[Any, Any, T]) -> list[T]:
        """Run programs that await `ended`, all at once, stepping the engine meanwhile."""

        async def everything() -> list[T]:
            tasks = [asyncio.ensure_future(program) for program in programs]
            try:
                while not all(task.done() for task in tasks):
                    await asyncio.sleep(0)  # lets each task take its turn between two steps
                    self.step()
            finally:
                for task in tasks:
                    task.cancel()
            return [task.result() for task in tasks]

        return asyncio.run(everything())

    async def ended(self, *context: Text | Any, **fields: Any) -> Outcome:
        """For programs: start a branch, and wait for its end."""
        branch = self.start(*context, **fields)
        self._waiting[branch] = asyncio.get_running_loop().create_future()
        return await self._waiting[branch]


@dataclass
class Seen:
    """The logits an engine computed, by branch and linear index."""

    rows: dict[BranchId, dict[int, Logits]]

    @classmethod
    def by(cls, engine: AnyEngine) -> Seen:
        seen = cls({})
        engine.observer = seen._add
        return seen

    def _add(self, branch: BranchId, linear: int, rows: Logits) -> None:
        self.rows.setdefault(branch, {}).update(enumerate(rows, linear))

    def difference(self, branch: BranchId, expected: Logits) -> float:
        """Largest distance of what was computed for `branch` from `expected` [S, vocab]."""
        rows = self.rows.get(branch, {})
        assert rows, "nothing was computed"
        return max(float(np.abs(row - expected[index]).max()) for index, row in rows.items())


def text(*ids: int) -> Text:
    return Text(ids)


def assert_nothing_held(engine: AnyEngine) -> None:
    """Every cell and every sequence is free again."""
    cache = engine.cache
    cache.check()
    load = engine.load()
    assert (load.kv_cells_free, load.leases) == (load.kv_cells, 0)
    if isinstance(engine, SimEngine):
        root = engine.cache.root
        assert (root.holders, root.children, engine.cache._joins) == (1, {}, {})
    else:
        assert list(engine.cache) == []
        assert len(engine.cache._index) == 0
        assert sorted(engine.cache._free_sequences) == list(range(engine.cache.sequences))


def leases_of(engine: AnyEngine) -> LeaseBook[Any]:
    return engine._leases if isinstance(engine, SimEngine) else engine.roster.leases
