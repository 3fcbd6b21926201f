"""All branches and leases of an engine, by age.

A request is as old as its first branch; its branches are ordered by their arrival. Who is
older goes first everywhere. Knows no batches and no memory.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Context
from multiverse_worker.contract import BranchId, RequestId, Start
from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.leases import Lease, LeaseBook

Order = tuple[int, int]


def _order(branch: Branch) -> Order:
    return branch.order


class Roster:
    """Iterates over its branches, oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.leases: LeaseBook[Holding] = LeaseBook(clock)
        self._branches: dict[BranchId, Branch] = {}
        self._by_age: list[Branch] = []
        self._ages: dict[RequestId, int] = {}
        self._arrivals = 0

    def __iter__(self) -> Iterator[Branch]:
        return iter(list(self._by_age))

    def __len__(self) -> int:
        return len(self._by_age)

    def get(self, branch: BranchId) -> Branch | None:
        return self._branches.get(branch)

    def add(self, start: Start, context: Context, root: KeyChain, fork: int | None) -> None:
        self._arrivals += 1
        age = self._ages.setdefault(start.owner, self._arrivals)
        branch = Branch(start, context, (age, self._arrivals), root, fork)
        self._branches[start.branch] = branch
        insort(self._by_age, branch, key=_order)

    def remove(self, branch: Branch) -> None:
        del self._branches[branch.start.branch]
        del self._by_age[bisect_left(self._by_age, branch.order, key=_order)]

    def of_stream(self, stream: int) -> list[Branch]:
        return [branch for branch in self if branch.start.branch.stream == stream]

    @property
    def admitted(self) -> list[Branch]:
        """Those that hold memory, oldest first."""
        return [branch for branch in self._by_age if branch.holding]

    def leases_behind(self, branch: Branch) -> list[Lease[Holding]]:
        """The leases of the youngest request that is younger than that of `branch`."""
        age = self._ages[branch.start.owner]
        younger = [lease for lease in self.leases if self._ages[lease.request] > age]
        if not younger:
            return []
        youngest = max(younger, key=lambda lease: self._ages[lease.request])
        return self.leases.of_request(youngest.request)

    def expired(self) -> list[Lease[Holding]]:
        """Take out and return the leases that have run out; forget ages that nobody needs."""
        live = {branch.start.owner for branch in self._by_age}
        expired = self.leases.expired(live)
        if len(self._ages) > 64 + 2 * (len(live) + len(self.leases)):
            live.update(lease.request for lease in self.leases)
            self._ages = {request: age for request, age in self._ages.items() if request in live}
        return expired
