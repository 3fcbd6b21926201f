"""Who gives way when cells or sequences run out.

Idle contexts go first, the one touched longest ago (the cache does that by itself). Where it is
sequences that run out, finished paths are folded (`folding`), which costs nothing. When a
branch cannot go on with all of them evicted, memory is taken from those behind it:

1. leases of streams that are lost: nobody can use them;
2. leases of the youngest request, if that is younger than the branch's own;
3. the memory of the youngest branch, if that is younger: it goes back to the queue, and what
   it had is found or computed again when it is admitted anew (see `admission`);
4. when no other branch has memory: the leases of its own request, then all that are left.

A branch that gets nothing waits while another one has memory: that one ends, and leaves it.
So the oldest branch always goes on, and everyone becomes the oldest. What was taken is
computed again, with the same tokens: a lease buys speed, never correctness.
"""

from __future__ import annotations

from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.folding import Folding
from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.engines.llamacpp.roster import Roster
from multiverse_worker.leases import Lease


class Pressure:
    """Takes memory from branches and leases, and counts what it took."""

    def __init__(self, roster: Roster, cache: KvCache) -> None:
        self._roster = roster
        self._cache = cache
        self.folding = Folding(roster, cache)
        self.revocations = 0
        self.preemptions = 0

    def free_sequence(self, branch: Branch) -> bool:
        """The same for a sequence: first of all, finished paths are folded into one."""
        return self.folding.fold() or self.relieve(branch)

    def relieve(self, branch: Branch) -> bool:
        """Take something from those behind `branch`; false when there is nothing to take."""
        leases = self._roster.leases
        if self._revoke(leases.of_lost_streams() or self._roster.leases_behind(branch)):
            return True
        youngest = self._roster.admitted[-1:]
        if youngest and youngest[0].order > branch.order:
            self._preempt(youngest[0])
            return True
        if self.others_run(branch):
            return False
        return self._revoke(leases.of_request(branch.start.owner) or list(leases))

    def others_run(self, branch: Branch) -> bool:
        """Whether a branch but this one has memory: it will end, and leave it."""
        return any(other is not branch for other in self._roster.admitted)

    def _revoke(self, leases: list[Lease[Holding]]) -> bool:
        for lease in leases:
            self._roster.leases.end(lease.id, lease.request.stream)
            self._cache.unpin(lease.held)
        self.revocations += len(leases)
        return bool(leases)

    def _preempt(self, branch: Branch) -> None:
        holding = branch.holding
        assert holding is not None
        branch.unload()
        branch.preempted += 1
        self._cache.discard(holding)
        self.preemptions += 1
