"""Who may load and decode, and how much of a batch each gets.

Admission is oldest first, without overtaking. The oldest branch of all is always admitted;
another one when there is room (cells that are free or idle) for what its context lacks, for
what those admitted before it still load, and for the next MARGIN tokens of each of them. A
branch that was put back n times needs room for 2^n times that margin, and n sequences to
spare: so being put back again becomes ever less likely, and what is computed again is bounded.

A batch serves the oldest first. Decoding branches get their token; the oldest branch that
loads has a quarter of the batch in its own place in that order, so those behind it may wait
for it and it never waits for them; what is left goes to loading, oldest first.
"""

from __future__ import annotations

from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache, NoRoomError
from multiverse_worker.engines.llamacpp.loader import cells_to_load
from multiverse_worker.engines.llamacpp.pressure import Pressure
from multiverse_worker.engines.llamacpp.roster import Roster
from multiverse_worker.tier.orders import Orders

MARGIN = 32  # tokens
_MOST_DOUBLINGS = 16
_LOADING_SHARE = 4

Batch = list[tuple[Branch, int]]  # branch, number of tokens of its feed


class Admission:
    """Lets waiting branches in."""

    def __init__(self, roster: Roster, cache: KvCache, pressure: Pressure, orders: Orders) -> None:
        self._roster = roster
        self._cache = cache
        self._orders = orders
        self._pressure = pressure

    def admit(self) -> None:
        """All that may come in now."""
        for place, branch in enumerate(self._roster):
            if branch.holding is None and not self._enter(branch, oldest=place == 0):
                return

    def _enter(self, branch: Branch, *, oldest: bool) -> bool:
        if self._cache.sequences_to_be_had <= branch.preempted:
            self._pressure.folding.fold()
        spare = self._spare(branch)
        if spare < 0 and not oldest:  # the next line costs something
            return False
        to_load = cells_to_load(self._cache, branch.root, branch.present_context, branch.fork)
        if spare < to_load and not oldest:
            return False
        while True:
            try:
                holding = self._cache.open(branch.root)
            except NoRoomError:
                if oldest and self._pressure.relieve(branch):
                    continue
                return False
            branch.admit(self._cache, holding, self._orders)
            branch.to_load = to_load
            return True

    def _spare(self, branch: Branch) -> int:
        """Cells that nobody will soon want, if `branch` came in; -1: it lacks a sequence."""
        if self._cache.sequences_to_be_had <= branch.preempted:
            return -1
        margin = MARGIN << min(branch.preempted, _MOST_DOUBLINGS)
        promised = sum(other.growth(margin) for other in self._roster.admitted)
        return self._cache.cells_to_be_had - promised - branch.growth(margin)


def share(ready: list[Branch], size: int) -> Batch:
    """Divide a batch of `size` tokens among branches that have something to compute."""
    loading = [branch for branch in ready if not branch.decoding]
    reserved = max(1, size // _LOADING_SHARE)
    given: dict[Branch, int] = {}
    room = size

    def give(branch: Branch, most: int) -> None:
        nonlocal room
        assert branch.feed is not None
        left = len(branch.feed.ids) - branch.feed.done - given.get(branch, 0)
        tokens = min(left, most, room)
        if tokens > 0:
            given[branch] = given.get(branch, 0) + tokens
            room -= tokens

    for branch in ready:
        if branch.decoding:
            give(branch, size)
        elif branch is loading[0]:
            give(branch, reserved)
    for branch in loading:
        give(branch, size)
    return sorted(given.items(), key=lambda entry: entry[0].order)
