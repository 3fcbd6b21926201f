"""All branches and leases of one scheduler, by age.

A request is as old as its first branch; its branches are ordered by their arrival. Time comes
from outside, so that all ranks have the same. Knows no policy and no SGLang.
"""

from __future__ import annotations

from collections.abc import Iterator

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Context
from multiverse_worker.contract import BranchId, RequestId, Start
from multiverse_worker.engines.sglang.branch import Branch
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.leases import LeaseBook


class Roster:
    """Iterates over its branches in the order of their arrival."""

    def __init__(self, tree: KvTree) -> None:
        self._tree = tree
        self.now = 0.0  # monotonic seconds
        self.leases: LeaseBook[Node] = LeaseBook(lambda: self.now)
        self._branches: dict[BranchId, Branch] = {}
        self._ages: dict[RequestId, int] = {}
        self._arrivals = 0

    def __iter__(self) -> Iterator[Branch]:
        return iter(list(self._branches.values()))

    def __len__(self) -> int:
        return len(self._branches)

    def get(self, branch: BranchId) -> Branch | None:
        return self._branches.get(branch)

    def add(self, start: Start, context: Context, root: KeyChain) -> Branch:
        self._arrivals += 1
        age = self._ages.setdefault(start.owner, self._arrivals)
        branch = Branch(start, context, (age, self._arrivals), root)
        self._branches[start.branch] = branch
        return branch

    def remove(self, branch: Branch) -> None:
        del self._branches[branch.start.branch]

    def age(self, request: RequestId) -> int:
        """Of a request that has a branch or a lease."""
        return self._ages[request]

    # -- leases --------------------------------------------------------------------------------

    def release(self, lease_id: str, stream: int) -> None:
        lease = self.leases.end(lease_id, stream)
        if lease:
            self._tree.unlock(lease.held, lease=True)

    def end_leases(self) -> None:
        for lease in self.leases:
            self.release(lease.id, lease.request.stream)

    def tick(self, now: float) -> None:
        """End the leases that have run out, and forget ages that nobody needs."""
        self.now = now
        live = {branch.start.owner for branch in self}
        for lease in self.leases.expired(live):
            self._tree.unlock(lease.held, lease=True)
        if len(self._ages) > 64 + 2 * (len(live) + len(self.leases)):
            live.update(lease.request for lease in self.leases)
            self._ages = {request: age for request, age in self._ages.items() if request in live}
