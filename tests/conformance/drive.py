"""Drives an engine through a given tree just as a router would, and compares every logit.

Of an engine without logits only what it says of its branches is checked: their ends, sizes and
content keys.
Only the engine contract is used, so the same suite runs against every engine. All tokens are
teacher-forced: texts are cut at random into what a start brings, what is decoded and a tail.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from multiverse_shared.errors import NotFound
from multiverse_shared.keys import content_keys
from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise
from multiverse_worker.contract import BranchId, Engine, Finish, FinishReason, Logits, Start

STREAM = 1


@dataclass
class Comparison:
    """Logits seen against logits expected."""

    compared: int = 0
    max_diff: float = 0.0
    branches: int = 0  # ended as they should, under the right key

    def add(self, seen: Logits, expected: Logits) -> None:
        self.compared += len(seen)
        self.max_diff = max(self.max_diff, float(np.abs(seen - expected).max()))


@dataclass
class Expected:
    """What a branch's context should give: rows of its tree, in the order of the context."""

    rows: Logits  # [S, vocab], of the whole tree
    order: tuple[int, ...]  # linear index in the tree of each token of the context
    covered: set[int]  # filled with the indices that were compared


class Pump:
    """Steps an engine and hands updates to whoever waits for them."""

    def __init__(self, engine: Engine, after_step: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._after_step = after_step
        self._numbers = iter(range(1 << 40))
        self._waiting: dict[BranchId, asyncio.Future[Finish]] = {}
        self._expected: dict[BranchId, Expected] = {}
        self.comparison = Comparison()
        engine.observer = self._observe

    def new_branch(self) -> BranchId:
        return BranchId(STREAM, next(self._numbers))

    async def run(self, start: Start, expected: Expected | None) -> Finish:
        """Start a branch and wait for its end."""
        if expected:
            self._expected[start.branch] = expected
        self._waiting[start.branch] = asyncio.get_running_loop().create_future()
        self._engine.start(start)
        try:
            return await self._waiting[start.branch]
        finally:
            del self._waiting[start.branch]
            self._expected.pop(start.branch, None)

    async def pump(self) -> None:
        """Step until cancelled."""
        while True:
            for update in self._engine.step():
                if update.finish:
                    self._waiting[update.branch].set_result(update.finish)
            self._after_step()
            await asyncio.sleep(0)

    def _observe(self, branch: BranchId, linear: int, rows: Logits) -> None:
        expected = self._expected[branch]
        indices = expected.order[linear : linear + len(rows)]
        self.comparison.add(rows, expected.rows[list(indices)])
        expected.covered.update(indices)


@dataclass
class TreeRun:
    """One tree as one request."""

    engine: Engine
    pump: Pump
    rng: random.Random
    request: str
    expected: Logits | None  # [S, vocab]
    drop_before_join: bool = False
    covered: set[int] = field(default_factory=set)

    async def run(self, tree: Context, indices: Context) -> None:
        """`indices` is the tree with linear indices in place of ids."""
        *_, leases = await self._walk((), (), normalise(tree), normalise(indices), b"", 0)
        for lease in leases:
            self.engine.release(lease, STREAM)

    async def _walk(
        self,
        context: Context,
        seen: Context,
        items: Context,
        indices: Context,
        base: bytes,
        base_items: int,
        block: BranchId | None = None,
    ) -> tuple[Context, Context, tuple[str, ...]]:
        """Run `items` behind `context`; returns both contexts and the leases they rest on.

        `base` is the key of the first `base_items` items of the context; `block` is the branch
        that forked, when `items` are those of a path.
        """
        leases: tuple[str, ...] = ()
        opens = block
        for item, index in zip(items, indices, strict=True):
            if isinstance(item, Text):
                assert isinstance(index, Text)
                start, expected = self._start(
                    context, seen, item, index, base, base_items, leases, opens
                )
                finish = await self.pump.run(start, expected)
                if isinstance(finish.error, NotFound):  # the base is gone: send all of it
                    full = (*context, start.context[-1])
                    start = replace(
                        start, branch=self.pump.new_branch(), context=full, base_key=b""
                    )
                    finish = await self.pump.run(start, expected)
                assert finish.reason is FinishReason.LENGTH, finish
                opens, block = None, start.branch
                context, seen = (*context, item), (*seen, index)
                self._check(finish, context)
                leases, base, base_items = (finish.lease,), finish.key, len(context)
            else:
                assert isinstance(index, Block)
                async with asyncio.TaskGroup() as paths:
                    tasks = [
                        paths.create_task(
                            self._walk(context, seen, path, path_index, base, base_items, block)
                        )
                        for path, path_index in zip(item.paths, index.paths, strict=True)
                    ]
                if self.drop_before_join:
                    self.engine.drop_cached()
                    base = b""
                context, seen = (*context, item), (*seen, index)
                leases += tuple(lease for task in tasks for lease in task.result()[2])
        return context, seen, leases

    def _check(self, finish: Finish, context: Context) -> None:
        """What is said of a branch that has become `context`."""
        assert finish.context_tokens == count(context)
        assert 0 <= finish.reused_tokens <= finish.context_tokens
        assert finish.key == content_keys(context, self.engine.info.namespace)[-1].key
        self.pump.comparison.branches += 1

    def _start(
        self,
        context: Context,
        seen: Context,
        item: Text,
        index: Text,
        base: bytes,
        base_items: int,
        leases: tuple[str, ...],
        block: BranchId | None,
    ) -> tuple[Start, Expected | None]:
        size = len(item.ids)
        header = self.rng.randint(1, size)
        tail = self.rng.randint(0, size - header)
        # A path starts from its fork, as a router starts it: then it shares no cell behind it.
        use_base = bool(base) and (block is not None or self.rng.random() < 0.5)
        before = context[base_items:] if use_base else context
        start = Start(
            branch=self.pump.new_branch(),
            request=self.request,
            context=(*before, Text(item.ids[:header])),
            base_key=base if use_base else b"",
            block=block,
            max_tokens=size - header - tail,
            script=item.ids[header : size - tail],
            length_tail=item.ids[size - tail :],
            consumes=leases if context and isinstance(context[-1], Block) else (),
        )
        if self.expected is None:
            return start, None
        return start, Expected(self.expected, linearise((*seen, index)), self.covered)
