"""How branches end: with a lease, without one, or as a failure. Collects the updates of a step.

Knows no batches.
"""

from __future__ import annotations

from multiverse_shared.errors import CapacityExceeded, MultiverseError
from multiverse_worker.contract import BranchId, Finish, FinishReason, Update
from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.pressure import Pressure
from multiverse_worker.engines.llamacpp.roster import Roster


class Endings:
    """`updates` is what nobody has been told yet."""

    def __init__(self, roster: Roster, cache: KvCache, pressure: Pressure) -> None:
        self._roster = roster
        self._cache = cache
        self._pressure = pressure
        self.updates: list[Update] = []

    def take(self) -> list[Update]:
        updates, self.updates = self.updates, []
        return updates

    def finish(self, branch: Branch) -> None:
        """Report the end; the branch's pin becomes a lease."""
        start, ending, holding = branch.start, branch.ending, branch.holding
        assert ending is not None
        assert holding is not None
        key = self._cache.name(holding)
        context = branch.present_context
        lease = self._roster.leases.grant(holding, start, key, context)
        self._cache.lease(holding)
        finish = Finish(
            ending.reason,
            ending.stop,
            ending.appended,
            lease.id,
            key,
            branch.loaded.reused,
            branch.context_tokens,
            fetched_tokens=branch.loaded.fetched,
        )
        self._roster.remove(branch)
        self.updates.append(Update(start.branch, finish=finish))

    def consume(self, branch: Branch) -> None:
        """The context is resident: what it was joined from is not needed any more."""
        for lease_id in branch.start.consumes:
            lease = self._roster.leases.end(lease_id, branch.start.branch.stream)
            if lease:
                self._cache.discard(lease.held)

    def retire(self, branch: Branch, finish: Finish) -> None:
        """End a branch without a lease."""
        holding = branch.holding
        branch.unload()
        if holding:
            self._cache.unpin(holding)
        self._roster.remove(branch)
        self.updates.append(Update(branch.start.branch, finish=finish))

    def abort(self, branch: Branch) -> None:
        self.retire(branch, Finish(FinishReason.ABORTED))

    def fail(self, branch: Branch, error: MultiverseError) -> None:
        self.retire(branch, Finish(FinishReason.FAILED, error=error))

    def refuse(self, branch: BranchId, error: MultiverseError) -> None:
        """Fail a branch that was never queued."""
        self.updates.append(Update(branch, finish=Finish(FinishReason.FAILED, error=error)))

    def wait(self, branch: Branch) -> None:
        """Nothing can be taken: others will leave something, or it never fits."""
        if not self._pressure.others_run(branch):
            text = "the KV pool is full and nothing can be taken from others"
            self.fail(branch, CapacityExceeded(text))
