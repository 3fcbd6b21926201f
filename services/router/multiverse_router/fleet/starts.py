"""Branches of one answer that have not begun: in the order of their paths, with their places.

Paths of one fork are placed as one decision. Of those on one worker that lacks their prefix the
first one begins alone, and the others when it is there: so it is computed once. Knows no commands.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from multiverse_router.fleet.held import Held
from multiverse_router.fleet.pool import Pool
from multiverse_router.fleet.worker import Worker
from multiverse_router.placement.prefix_index import Prefix
from multiverse_router.placement.view import Progress
from multiverse_shared.effects import StartBranch
from multiverse_shared.tree import count

_Item: TypeAlias = tuple[tuple[int, ...], int, StartBranch]


class Starts:
    """`held` says where they find what they go on from."""

    def __init__(self, pool: Pool, held: Held, progress: Progress, salt: bytes = b"") -> None:
        self._pool = pool
        self._salt = salt  # of the tenant
        self._prompt = Prefix(0)
        self._held = held
        self._progress = progress
        self._order = itertools.count()
        self._items: list[_Item] = []
        self._deferred: list[_Item] = []  # the policy lets them wait
        self._placed: dict[str, Worker | None] = {}
        self._pioneers: dict[tuple[str | None, Worker], str | None] = {}  # load for siblings

    def add(self, starts: Iterable[StartBranch]) -> None:
        for start in starts:
            order = tuple(int(part) for part in start.path.split("."))
            heapq.heappush(self._items, (order, next(self._order), start))

    def __bool__(self) -> bool:
        """Whether there is one that may begin."""
        return bool(self._items)

    @property
    def deferred(self) -> bool:
        """Whether some wait until the policy is asked again."""
        return bool(self._deferred)

    def ask_again(self) -> None:
        for item in self._deferred:
            heapq.heappush(self._items, item)
        self._deferred.clear()

    def clear(self) -> None:
        self._items.clear()
        self._deferred.clear()

    def next(self) -> StartBranch | None:
        """The first one that does not have to wait; it is taken out."""
        while self._items:
            item = heapq.heappop(self._items)
            if not self._waits(item[2]):
                return item[2]
            self._deferred.append(item)
        return None

    def place(self, start: StartBranch) -> Worker:
        """Where one that was taken out begins. WorkerUnavailable when nobody takes it."""
        worker = self._placed.pop(start.branch, None) or self._held.home(start)
        if worker is not None and self._pool.holds(worker):
            return worker
        prefix = self._pool.prefix(start.context, self._salt)
        if start.block is not None or start.joins:
            return self._pool.root(prefix)
        self._prompt = prefix
        return self._pool.root(prefix, progress=self._progress)

    def loaded(self, start: StartBranch) -> None:
        """A branch has said something, or has ended: its worker holds its context."""
        done = [key for key, name in self._pioneers.items() if name == start.branch]
        for key in done:
            self._pioneers[key] = None
        if done:
            self.ask_again()

    def _waits(self, start: StartBranch) -> bool:
        """Ask the policy about all siblings of `start` that have not begun, if it wasn't."""
        home = self._held.home(start)
        if not _is_sibling(start) or home is None:
            return False
        if start.branch not in self._placed:
            others = (item[2] for item in sorted(self._items) if item[2].block == start.block)
            names = [start.branch, *(other.branch for other in others if _is_sibling(other))]
            prefix = replace(self._prompt, tokens=count(start.context))
            loaded = [worker for block, worker in self._pioneers if block == start.block]
            placed = self._pool.fork(home, len(names), prefix, self._progress, loaded)
            self._placed.update(zip(names, placed, strict=True))
            if None in placed:
                self._held.ships(names[: placed.index(None)])
        worker = self._placed[start.branch]
        if worker is None:
            del self._placed[start.branch]
            return True
        if worker is home or not self._pool.holds(worker):
            return False
        pioneer = self._pioneers.setdefault((start.block, worker), start.branch)
        return pioneer not in (None, start.branch)


def _is_sibling(start: StartBranch) -> bool:
    """Whether `start` is the beginning of a path of a block."""
    return start.block is not None and not start.joins
