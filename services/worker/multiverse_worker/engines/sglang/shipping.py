"""Puts KV into the tier: a path that is joined elsewhere, and public prefixes by policy.

A piece goes out when it is complete, beside the decoding of its branch, and is read right
behind a token of the branch: then all before that token is in its row. The end of a path is told
when its last piece is there, or was given up: who joins it finds it then. What is left of a
prompt when its branch ends stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from multiverse_shared.keys import CHUNK, after
from multiverse_shared.tree import count, normalise
from multiverse_worker.engines.sglang.branch import Branch
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.slots import Slots
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.tier.pace import Pace
from multiverse_worker.tier.pieces import Name, Piece, pieces, split, text_pieces
from multiverse_worker.tier.transfer import Transfer

if TYPE_CHECKING:  # its packages are an extra
    from multiverse_worker.tier.tier import Put

Row = Callable[[Stage], torch.Tensor]


@dataclass(slots=True)
class _Parcel:
    """What one branch still has to send: pieces, and where they begin in its row."""

    queue: deque[tuple[Piece, int]] = field(default_factory=deque)
    queued: set[Name] = field(default_factory=set)  # of the path, whether sent or not
    looked_at: int = 0  # tokens of the context when it was cut last
    puts: list[Put] = field(default_factory=list)
    whole: bool = False  # the branch has ended, all its pieces were queued


class Shipping:
    """One per engine; without a tier nothing is sent. `row` gives the slots of a stage that
    runs, in linear order."""

    def __init__(
        self, transfer: Transfer, tree: KvTree, slots: Slots, row: Row, pace: Pace
    ) -> None:
        self._tier = transfer.tier
        self._tree = tree
        self._slots = slots
        self._row = row
        self._pace = pace
        self._prefixes = transfer.prefixes
        self._parcels: dict[Branch, _Parcel] = {}

    def sampled(self, stage: Stage) -> None:
        """A stage that goes on has sampled a token: all before it is computed."""
        if self._tier is None:
            return
        branch = stage.branch
        if len(branch.sampled) == 1:
            self._prompt(branch)
        if branch.start.ship_from is not None:
            parcel = self._parcels.setdefault(branch, _Parcel())
            if len(branch.sampled) >= parcel.looked_at + CHUNK or not parcel.looked_at:
                parcel.looked_at = len(branch.sampled)
                self._pack(branch, parcel)
        left = self._parcels.get(branch)
        if left and left.queue:
            self._send(left, self._row(stage))

    def ended(self, branch: Branch) -> bool:
        """Whether the end of a branch may be told: all that others want of it is on its way."""
        if branch.start.ship_from is None or self._tier is None:
            self.drop(branch)
            return True
        parcel = self._parcels.setdefault(branch, _Parcel())
        if not parcel.whole:
            parcel.whole = True
            self._pack(branch, parcel)
        if parcel.queue:
            self._send(parcel, self._tree.row(branch.pins[-1]))
        if parcel.queue or not all(put.done for put in parcel.puts):
            return False
        self.drop(branch)
        return True

    def drop(self, branch: Branch) -> None:
        """The branch has nothing more to send."""
        self._parcels.pop(branch, None)

    def _prompt(self, branch: Branch) -> None:
        """Queue what the policy wants of the text that a request begins with: full chunks."""
        first = branch.prompt
        if self._prefixes == "never" or first is None:
            return
        reaches = branch.reused if self._prefixes == "reused" else len(first.ids)
        parcel, at = _Parcel(), 0
        for piece in pieces((first,), branch.root):
            if at + len(piece.ids) <= reaches and not piece.chain.pending:
                parcel.queue.append((piece, at))
            at += len(piece.ids)
        if parcel.queue:
            self._parcels[branch] = parcel

    def _pack(self, branch: Branch, parcel: _Parcel) -> None:
        """Queue the pieces of the path that are complete and were not queued yet."""
        position = branch.start.ship_from
        assert position is not None
        before, own = split(normalise(branch.final_context), position)
        at = count(before)
        computed = at + count(own) - (not parcel.whole)  # the token sampled last is not yet
        for piece in text_pieces(own, after(before, branch.root)):
            stop = at + len(piece.ids)
            if stop <= computed and piece.name not in parcel.queued:
                parcel.queued.add(piece.name)
                parcel.queue.append((piece, at))
            at = stop

    def _send(self, parcel: _Parcel, row: torch.Tensor) -> None:
        """As much as this step may, and as the tier takes without turning it away."""
        tier = self._tier
        assert tier is not None
        while parcel.queue:
            piece, at = parcel.queue[0]
            if not tier.knows(piece.name):
                size = len(piece.ids) * self._slots.token_bytes
                if not tier.has_room(size) or not self._pace.may():
                    return
                raw = self._slots.read(row[at : at + len(piece.ids)])
                parcel.puts.append(tier.put(piece.name, raw))
            parcel.queue.popleft()
