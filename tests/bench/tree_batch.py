"""Many fork-join trees at once on one engine, by the engine contract alone.

Teacher-forced like `tree_driver`, so that every way of running them computes the same tokens.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from multiverse_shared.tree import Block, Text
from multiverse_worker.contract import BranchId, Engine, Finish, FinishReason, Start
from tests.bench.tree_driver import Tree

STREAM = 2


@dataclass(slots=True)
class _Run:
    """One tree under way."""

    tree: Tree
    request: str
    plan: Finish | None = None
    root: BranchId | None = None
    waiting: list[int] = field(default_factory=list)  # paths not started yet
    running: set[BranchId] = field(default_factory=set)
    leases: list[str] = field(default_factory=list)
    joined: bool = False


class TreeBatch:
    """Runs trees side by side; `serial` starts a tree's paths one after another."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = itertools.count(1)
        self._owners: dict[BranchId, _Run] = {}

    def seconds(self, trees: list[Tree], *, serial: bool = False) -> float:
        """From the first start to the last end, with an empty cache at the beginning."""
        self._engine.drop_cached()
        began = time.perf_counter()
        for number, tree in enumerate(trees):
            run = _Run(tree, f"tree-{number}", waiting=list(range(len(tree.paths))))
            run.root = self._start(run, (Text(tree.prompt),), tree.plan)
        while self._owners:
            for update in self._engine.step():
                if update.finish:
                    self._ended(update.branch, update.finish, serial)
        return time.perf_counter() - began

    def _start(
        self,
        run: _Run,
        context: tuple[Text | Block, ...],
        script: tuple[int, ...],
        **fields: object,
    ) -> BranchId:
        branch = BranchId(STREAM, next(self._numbers))
        self._owners[branch] = run
        run.running.add(branch)
        start = Start(branch, run.request, context, len(script), script=script, **fields)  # type: ignore[arg-type]
        self._engine.start(start)
        return branch

    def _ended(self, branch: BranchId, finish: Finish, serial: bool) -> None:
        run = self._owners.pop(branch)
        assert finish.reason is FinishReason.LENGTH, finish
        run.running.discard(branch)
        run.leases.append(finish.lease)
        if run.plan is None:
            run.plan = finish
        if run.joined:
            for lease in run.leases:
                self._engine.release(lease, STREAM)
            return
        while run.waiting and not (serial and run.running):
            ids = run.tree.paths[run.waiting.pop(0)]
            self._start(run, (Text(ids[:1]),), ids[1:], base_key=run.plan.key, block=run.root)
        if not run.running:
            run.joined = True
            tree = run.tree
            block = Block(tuple((Text(ids),) for ids in tree.paths))
            context = (Text(tree.prompt), Text(tree.plan), block, Text(tree.conclusion[:1]))
            self._start(run, context, tree.conclusion[1:], consumes=tuple(run.leases))
