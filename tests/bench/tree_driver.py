"""Runs fork-join trees of fixed size on an engine, by the engine contract alone.

All tokens are teacher-forced, so that every way of running the same tree computes the same
tokens: in parallel, one path at a time, or as a client without fork and join would do it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.contract import BranchId, Engine, Finish, FinishReason, Sampling, Start

STREAM = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a tree with one block, in tokens."""

    prompt: int
    plan: int
    paths: int
    path: int
    conclusion: int

    @property
    def total(self) -> int:
        """Decoded tokens."""
        return self.plan + self.paths * self.path + self.conclusion

    @property
    def critical(self) -> int:
        """Decoded tokens on the longest chain."""
        return self.plan + self.path + self.conclusion


@dataclass(frozen=True, slots=True)
class Tree:
    """The ids of one tree; headers are one token."""

    prompt: tuple[int, ...]
    plan: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]  # header first
    conclusion: tuple[int, ...]  # header first

    @classmethod
    def random(cls, shape: Shape, vocab: int, rng: random.Random) -> Tree:
        def ids(count: int) -> tuple[int, ...]:
            return tuple(rng.randrange(vocab) for _ in range(count))

        paths = tuple(ids(shape.path + 1) for _ in range(shape.paths))
        return cls(ids(shape.prompt), ids(shape.plan), paths, ids(shape.conclusion + 1))


@dataclass(slots=True)
class Driver:
    """One engine, stepped by hand."""

    engine: Engine
    clock: Callable[[], float] = time.perf_counter  # seconds
    step_seconds: list[float] = field(default_factory=list)  # of the last run
    first_conclusion_s: float = 0.0  # of the last run: from the last path's end to the first token
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _first_token: dict[BranchId, float] = field(default_factory=dict)

    def start(self, context: Context, script: Sequence[int], **fields: object) -> BranchId:
        branch = BranchId(STREAM, next(self._numbers))
        options: dict[str, Any] = {
            "request": "bench",
            "max_tokens": len(script),
            "script": tuple(script),
            **fields,
        }
        self.engine.start(Start(branch, context=context, **options))
        return branch

    def until(self, wanted: Sequence[BranchId]) -> dict[BranchId, Finish]:
        """Step until these branches have ended."""
        left, out = set(wanted), {}
        while left:
            began = self.clock()
            updates = self.engine.step()
            ended = self.clock()
            self.step_seconds.append(ended - began)
            for update in updates:
                if update.ids:
                    self._first_token.setdefault(update.branch, ended)
                if update.finish:
                    assert update.finish.reason is FinishReason.LENGTH, update.finish
                    left.discard(update.branch)
                    out[update.branch] = update.finish
        return out

    def _begin(self) -> None:
        self.step_seconds.clear()
        self._first_token.clear()

    def fork_join(self, tree: Tree, *, serial: bool = False, decode: int | None = None) -> float:
        """Seconds of one tree with fork and join, after its prompt is resident.

        Paths decode all tokens but their header, or only the last `decode` of them.
        """
        resident = self._prefill(tree.prompt)
        self._begin()
        began = self.clock()
        root = self.start((Text(tree.prompt),), tree.plan)
        plan = self.until([root])[root]
        prefix = (Text(tree.prompt), Text(tree.plan))

        def path(ids: tuple[int, ...]) -> BranchId:
            cut = 1 if decode is None else len(ids) - decode
            header = (Text(ids[:cut]),)
            return self.start(header, ids[cut:], base_key=plan.key, block=root)

        ended: dict[BranchId, Finish] = {}
        if serial:
            for ids in tree.paths:
                ended |= self.until([path(ids)])
        else:
            ended = self.until([path(ids) for ids in tree.paths])
        joined = self.clock()
        block = Block(tuple((Text(ids),) for ids in tree.paths))
        end = self.start(
            (*prefix, block, Text(tree.conclusion[:1])),
            tree.conclusion[1:],
            consumes=(plan.lease, *(finish.lease for finish in ended.values())),
        )
        finish = self.until([end])[end]
        seconds = self.clock() - began
        self.first_conclusion_s = self._first_token[end] - joined
        for lease in (finish.lease, resident):
            self.engine.release(lease, STREAM)
        return seconds

    def client_side(self, tree: Tree) -> float:
        """The same tokens as k ordinary requests and one over their text: prefixes are cached."""
        resident = self._prefill(tree.prompt)
        self._begin()
        began = self.clock()
        root = self.start((Text(tree.prompt),), tree.plan)
        leases = [self.until([root])[root].lease]
        before = tree.prompt + tree.plan
        paths = [self.start((Text(before + ids[:1]),), ids[1:]) for ids in tree.paths]
        leases += [finish.lease for finish in self.until(paths).values()]
        text = before + tuple(token for ids in tree.paths for token in ids)
        end = self.start((Text(text + tree.conclusion[:1]),), tree.conclusion[1:])
        leases.append(self.until([end])[end].lease)
        seconds = self.clock() - began
        for lease in (*leases, resident):
            self.engine.release(lease, STREAM)
        return seconds

    def step_time(self, context: int, branches: int, steps: int, vocab: int) -> float:
        """Median seconds of a plain step: `branches` over a context of that many tokens."""
        rng = random.Random(context * 31 + branches)
        shared = tuple(rng.randrange(vocab) for _ in range(context))
        resident = self._prefill(shared)
        self._begin()
        ids = [tuple(rng.randrange(vocab) for _ in range(steps + 3)) for _ in range(branches)]
        ended = self.until([self.start((Text(shared + i[:1]),), i[1:]) for i in ids])
        for lease in (resident, *(finish.lease for finish in ended.values())):
            self.engine.release(lease, STREAM)
        return sorted(self.step_seconds)[len(self.step_seconds) // 2]

    def sampled_steps(self, branches: int, steps: int, sampling: Sampling, vocab: int) -> float:
        """Seconds of all steps in which so many branches draw their tokens."""
        rng = random.Random(branches)
        prompts = [(Text(tuple(rng.randrange(vocab) for _ in range(32))),) for _ in range(branches)]
        self._begin()
        started = [self.start(p, (), max_tokens=steps, sampling=sampling) for p in prompts]
        for finish in self.until(started).values():
            self.engine.release(finish.lease, STREAM)
        return sum(self.step_seconds[1:])  # the first one reads the prompts

    def fill(self, cells: int, vocab: int, length: int = 512) -> None:
        """Leave idle contexts of that many cells in the cache."""
        rng = random.Random(cells)
        for _ in range(cells // length):
            lease = self._prefill(tuple(rng.randrange(vocab) for _ in range(length)))
            self.engine.release(lease, STREAM)

    def _prefill(self, ids: tuple[int, ...]) -> str:
        branch = self.start((Text(ids),), ())
        return self.until([branch])[branch].lease


def timed(run: Callable[[], float], repeats: int) -> float:
    """Median seconds; the first run warms up."""
    run()
    return sorted(run() for _ in range(repeats))[repeats // 2]
