"""Saves sequence ids: finished paths of one block are held by one sequence until they join.

So a request needs an id for each open block and each running path, not for each finished one.
Paths are folded only when ids run out, because folded paths can't be taken apart again: one
that was no end of a path after all (a plan whose paths have not come yet) is computed again.
No cell moves or is lost.
"""

from __future__ import annotations

from collections import defaultdict

from multiverse_shared.keys import KeyChain, after
from multiverse_worker.contract import BranchId
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.engines.llamacpp.loader import until
from multiverse_worker.engines.llamacpp.roster import Roster
from multiverse_worker.leases import Lease


class Folding:
    """Frees sequences without taking anything from anybody."""

    def __init__(self, roster: Roster, cache: KvCache) -> None:
        self._roster = roster
        self._cache = cache
        self.folds = 0

    def fold(self) -> bool:
        """Free at least one sequence; false when no two finished paths can share one."""
        parents = {lease.branch: lease for lease in self._roster.leases}
        blocks: dict[BranchId, list[Lease[Holding]]] = defaultdict(list)
        forked = {branch.start.block for branch in self._roster}
        forked |= {lease.block for lease in parents.values()}
        for lease in parents.values():
            if lease.block in parents and lease.branch not in forked:
                blocks[lease.block].append(lease)
        return any(self._fold(parents[block], paths) for block, paths in blocks.items())

    def _fold(self, parent: Lease[Holding], paths: list[Lease[Holding]]) -> bool:
        if len({path.held for path in paths}) < 2:
            return False
        before = after(parent.context, parent.held.root)
        paths = [path for path in paths if self._follows(path, before)]
        freed = False
        for path in paths[1:]:
            target, source = paths[0].held, path.held
            if source is not target and self._cache.fold(target, source, before):
                for lease in [lease for lease in paths if lease.held is source]:
                    lease.held = target
                    self._cache.pin(target)
                    self._cache.discard(source)
                self.folds += 1
                freed = True
        return freed

    def _follows(self, path: Lease[Holding], before: KeyChain) -> bool:
        """Whether a lease is on a path behind exactly what `before` stands for."""
        prefix = until(path.context, before.position)
        return prefix != path.context and after(prefix, path.held.root) == before
