"""Who gives way when memory runs out.

Ordinary cache goes first (SGLang evicts it by itself). If the oldest still can't go on, the
youngest request gives up its leases, and then what its waiting branches hold: a branch that is
put back ("parked") begins again later, with the same tokens. So the oldest always goes on, and
everyone becomes the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from multiverse_worker.contract import RequestId
from multiverse_worker.engines.sglang.branch import Branch
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.roster import Roster
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.leases import Lease

Order = tuple[int, int]


class Pressure:
    """Takes memory from branches and leases, and counts what it took."""

    def __init__(self, roster: Roster, unload: Callable[[Branch], None]) -> None:
        self._roster = roster
        self._unload = unload  # give up what a branch holds and computes
        self.revoked = 0  # leases taken back
        self.parked = 0  # branches put back to the beginning

    def relieve(
        self,
        order: Order,
        queued: Collection[Stage],
        *,
        alone: bool,
        desperate: bool = False,
    ) -> bool:
        """Take memory from those younger than `order`; false when there is nothing to take.

        `queued` are the stages that SGLang has not begun; who waits for the tier gives way, too.
        `alone`, nothing else runs: then its own request gives too. `desperate`, nothing has run
        for a while: then older ones give as well (before, they may be about to go on).
        """
        leases = self._roster.leases
        lost = leases.of_lost_streams()
        if lost:
            return self._revoke(lost)
        age = order[0]
        holders = {lease.request for lease in leases}
        waiting = [
            branch
            for branch in self._roster
            if branch.order > order and (branch.stage in queued or branch.coming)
        ]
        holders.update(branch.start.owner for branch in waiting)
        for request in sorted(holders, key=self._roster.age, reverse=True):
            of = self._roster.age(request)
            if of > age or (alone and of == age) or (desperate and of < age):
                return self._strip(request, waiting)
        return False

    def _strip(self, request: RequestId, waiting: list[Branch]) -> bool:
        """End the leases of a request, or else put its youngest waiting branch back."""
        leases = self._roster.leases.of_request(request)
        if leases:
            return self._revoke(leases)
        own = [branch for branch in waiting if branch.start.owner == request]
        if own:
            self.park(max(own, key=lambda branch: branch.order))
        return bool(own)

    def _revoke(self, leases: list[Lease[Node]]) -> bool:
        for lease in leases:
            self._roster.release(lease.id, lease.request.stream)
        self.revoked += len(leases)
        return True

    def park(self, branch: Branch) -> None:
        """Put a branch back to its beginning."""
        self.parked += 1
        self._unload(branch)

    @property
    def next_parked(self) -> Branch | None:
        """The oldest branch that is put back."""
        parked = [branch for branch in self._roster if branch.stages is None]
        return min(parked, key=lambda branch: branch.order, default=None)

    def others_hold(self, branch: Branch) -> bool:
        """Whether anyone but this branch has memory, and will leave it in the end."""
        others = any(other.stages for other in self._roster if other is not branch)
        return others or len(self._roster.leases) > 0
