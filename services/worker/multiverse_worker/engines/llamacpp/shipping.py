"""Puts KV into the tier: a path that is joined elsewhere, and public prefixes by policy.

A piece of a path goes out as soon as it is complete, while the branch decodes on; the end of the
branch is told when the last piece is there, or was given up: who joins it finds it then. A piece
of a prompt goes out beside the decoding behind it; what is left when the branch ends stays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multiverse_shared.keys import after
from multiverse_shared.tree import Text
from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.tier.pace import Pace
from multiverse_worker.tier.pieces import Piece, pieces, split
from multiverse_worker.tier.transfer import Prefixes

if TYPE_CHECKING:
    from multiverse_worker.tier.tier import Put, Tier


@dataclass(slots=True)
class _Parcel:
    """What one branch still has to send."""

    queue: deque[Piece] = field(default_factory=deque)
    queued: int = 0  # pieces of the path that were in the queue
    whole: bool = False  # the branch has ended, all its pieces were queued
    puts: list[Put] = field(default_factory=list)


class Shipping:
    """One per engine; without a tier nothing is sent."""

    def __init__(self, tier: Tier | None, cache: KvCache, pace: Pace, prefixes: Prefixes) -> None:
        self._tier = tier
        self._cache = cache
        self._pace = pace
        self._prefixes = prefixes if tier else "never"
        self._parcels: dict[Branch, _Parcel] = {}

    def loaded(self, branch: Branch) -> None:
        """The context of the branch is resident: its prompt may be of use to others."""
        start, first = branch.start, branch.context[0]
        begins = not (start.block or start.base_key or start.consumes)  # a request
        if self._prefixes == "never" or not begins or not isinstance(first, Text):
            return
        reaches = branch.loaded.reused if self._prefixes == "reused" else len(first.ids)
        cut = pieces((first,), branch.root)
        full = [p for p in cut if not p.chain.pending and p.stop <= reaches]
        if full:
            self._parcels.setdefault(branch, _Parcel()).queue.extend(full)

    def grown(self, branch: Branch) -> None:
        """Something was computed for a branch that has its context."""
        holding = branch.holding
        shipped = self._tier and branch.start.ship_from is not None
        if shipped and holding is not None and not holding.chain.pending:
            self._pack(branch)

    def ended(self, branch: Branch) -> bool:
        """Whether the end of a branch may be told: all that others want of it is on its way."""
        if branch.start.ship_from is None or self._tier is None:
            self._parcels.pop(branch, None)
            return True
        parcel = self._parcels.get(branch)
        if parcel is None or not parcel.whole:
            parcel = self._pack(branch)
            parcel.whole = True
        self._send(branch, parcel)
        if parcel.queue or not all(put.done for put in parcel.puts):
            return False
        del self._parcels[branch]
        return True

    def send(self) -> None:
        """As much as this step may, of branches that run."""
        for branch, parcel in list(self._parcels.items()):
            if branch.holding is None:  # it was put back, or given up
                del self._parcels[branch]
            elif branch.decoding:
                self._send(branch, parcel)

    def _pack(self, branch: Branch) -> _Parcel:
        """Queue the pieces of the path that were not queued yet; all of them are complete."""
        parcel = self._parcels.setdefault(branch, _Parcel())
        position = branch.start.ship_from
        assert position is not None
        before, own = split(branch.present_context, position)
        assert branch.holding is not None
        computed = branch.holding.chain.position  # the token sampled last is not
        cut = [p for p in pieces(own, after(before, branch.root)) if p.stop <= computed]
        parcel.queue.extend(cut[parcel.queued :])
        parcel.queued = len(cut)
        return parcel

    def _send(self, branch: Branch, parcel: _Parcel) -> None:
        tier, holding = self._tier, branch.holding
        assert tier is not None
        assert holding is not None
        while parcel.queue:
            piece = parcel.queue[0]
            if not tier.knows(piece.name):
                if not self._pace.may():
                    return
                parcel.puts.append(tier.put(piece.name, self._cache.export(holding, piece)))
            parcel.queue.popleft()
