"""Resident contexts: which context trees the KV pool holds.

A holding is one llama.cpp sequence with the spine of the context in it. Knows keys, tokens
and sequences. Must not know branches or scheduling.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Block, Context
from multiverse_worker.cache_journal import CacheChanges
from multiverse_worker.engines.llamacpp.cells import CellLedger, Use
from multiverse_worker.engines.llamacpp.index import Hit, Holding, KeyIndex
from multiverse_worker.engines.llamacpp.library import Library
from multiverse_worker.tier.pieces import Piece

# Every query scans all used cells, so idle ones may be 1 in so many of the pool, and no more than
# the model passes by easily; but always enough for a prompt.
IDLE_SHARE = 4
IDLE_LEAST = 256


class NoRoomError(Exception):
    """All sequences are in use, or all cells are pinned: wait for others to end."""


class KvCache:
    """Opens, copies, names, finds and evicts holdings. All cells of the pool belong to one."""

    def __init__(
        self,
        library: Library,
        cells: int,
        sequences: int,
        namespace: str,
        idle_cells: int | None = None,
    ) -> None:
        self._library = library
        self.ledger = CellLedger(cells)
        self.sequences = sequences
        self._namespace = namespace
        easy = max(IDLE_LEAST, library.cells_passed_by)
        self.idle_cap = min(cells // IDLE_SHARE, easy) if idle_cells is None else idle_cells
        self.evictions = 0
        self._free_sequences = list(range(sequences - 1, -1, -1))
        self._holdings: dict[int, Holding] = {}
        self._index = KeyIndex()
        self._clock = itertools.count()

    def __iter__(self) -> Iterator[Holding]:
        return iter(self._holdings.values())

    def root(self, salt: bytes) -> KeyChain:
        """Where the contexts of a tenant begin: nobody finds those of another one."""
        return KeyChain.root(self._namespace, salt)

    @property
    def names(self) -> Iterator[bytes]:
        """Content keys that are found."""
        return iter(self._index)

    @property
    def changes(self) -> CacheChanges:
        """Names that came and went."""
        return self._index.changes

    # -- life of a holding -----------------------------------------------------------------

    def open(self, root: KeyChain, chain: KeyChain | None = None) -> Holding:
        """A new empty holding with one pin, to go on from `chain` (the root, unless it is said).

        NoRoomError when no sequence can be had.
        """
        if not self._free_sequences and not self.evict_one():
            raise NoRoomError
        holding = Holding(self._free_sequences.pop(), root, chain or root, pins=1)
        self.ledger.open(holding.sequence)
        self._holdings[holding.sequence] = holding
        self._touch(holding)
        return holding

    def lease(self, holding: Holding) -> None:
        """The pin of a running branch becomes that of a lease."""
        self.ledger.use(holding.sequence, Use.LEASED)

    def pin(self, holding: Holding) -> None:
        """One more pin on what is pinned already."""
        assert holding.pins > 0, "what is idle can't be pinned"
        holding.pins += 1

    def unpin(self, holding: Holding) -> None:
        """Drop one pin; without pins the holding is ordinary cache."""
        assert holding.pins > 0, "unpinned more often than pinned"
        holding.pins -= 1
        if holding.pins == 0:
            self.ledger.use(holding.sequence, Use.IDLE)
            self._touch(holding)
            self._trim()

    def discard(self, holding: Holding) -> None:
        """Drop one pin, and the holding itself when that was the last."""
        assert holding.pins > 0, "discarded more often than pinned"
        holding.pins -= 1
        if holding.pins == 0:
            self._forget(holding)
            self._trim()  # idle contexts may have shared its cells

    def _forget(self, holding: Holding) -> None:
        self._index.remove(holding)
        del self._holdings[holding.sequence]
        self._library.remove(holding.sequence)
        self.ledger.close(holding.sequence)
        self._free_sequences.append(holding.sequence)

    # -- content -----------------------------------------------------------------------------

    def grow(self, holding: Holding, ids: list[int]) -> None:
        """Record that `ids` were computed at the end of the holding."""
        start = holding.chain.position
        self.ledger.append(holding.sequence, start, len(ids))
        holding.ids.extend(ids)
        holding.positions.extend(range(start, start + len(ids)))
        for chain in holding.chain.text(tuple(ids)):
            holding.chain = chain
            if not chain.pending:
                self._index.add(holding, chain.end, chain.position)

    def export(self, holding: Holding, piece: Piece) -> bytes:
        """The KV of a piece that the holding has."""
        return self._library.export(holding.sequence, piece.start, piece.stop)

    def land(self, holding: Holding, piece: Piece, raw: bytes) -> bool:
        """Put exported KV at the end of the holding; false when the library does not take it.

        What the holding has of a text piece already is left out. A piece of a block changes no
        name: the block is closed when all its pieces are there. Room is made before.
        """
        start = max(piece.start, holding.chain.position) if piece.ids else piece.start
        if not self._library.land(raw, holding.sequence, piece, start):
            return False
        if piece.ids:
            self.grow(holding, list(piece.ids[start - piece.start :]))
            return True
        for place in piece.places:
            self.ledger.append(holding.sequence, place, 1)
        return True

    def name(self, holding: Holding) -> bytes:
        """Give the present end of the holding its key."""
        key = holding.chain.end
        self._index.add(holding, key, holding.chain.position)
        return key

    def adopt(self, target: Holding, hit: Hit) -> None:
        """Let an empty `target` hold what `hit` found."""
        source, stop = hit.holding, hit.chain.position
        self._touch(source)
        self._copy(source, target, 0, stop)
        kept = bisect_left(source.positions, stop)
        target.ids = source.ids[:kept]
        target.positions = source.positions[:kept]
        target.chain = hit.chain
        for key, position in source.names.items():
            if position <= stop:
                self._index.add(target, key, position)

    def join(self, target: Holding, source: Holding, stop: int) -> None:
        """Let `target` hold the path that `source` has behind the end of `target`'s spine."""
        self._touch(source)
        self._copy(source, target, target.chain.position, stop)

    def fork(self, source: Holding, target: Holding) -> None:
        """Let an empty `target` hold the spine of `source` (but not the paths joined since)."""
        self._copy(source, target, 0, source.chain.position)
        target.ids = list(source.ids)
        target.positions = list(source.positions)
        target.chain = source.chain
        for key, position in source.names.items():
            self._index.add(target, key, position)

    def fold(self, target: Holding, source: Holding, before: KeyChain) -> bool:
        """Let `target` hold the path of `source`, too; both follow `before`.

        What `target` held as spine behind `before` becomes a folded path. Folded paths can only
        be joined together. False, and nothing has changed, when the two have a cell in common
        there or hold the same path. `source` stays as it is.
        """
        for holding in (target, source):
            if not holding.folded:
                holding.folded = {self.name(holding): holding.chain.position}
        start, stop = before.position, max(source.folded.values())
        if source.folded.keys() & target.folded.keys():
            return False
        if self.ledger.share(source.sequence, target.sequence, start, stop):
            return False
        self._copy(source, target, start, stop)
        target.folded |= source.folded
        self._index.cut(target, start)
        target.chain = before
        return True

    def folded(self, keys: Collection[bytes], apart_from: Sequence[Holding] = ()) -> Holding | None:
        """A holding of folded paths all of which are among `keys`, as in `find`."""
        for holding in self:
            if len(holding.folded) > 1 and holding.folded.keys() <= set(keys):
                start, stop = holding.chain.position, max(holding.folded.values())
                if not self._shares(holding, apart_from, start, stop):
                    return holding
        return None

    def close_block(self, holding: Holding, block: Block) -> None:
        """All paths of `block` are joined: go on behind it."""
        holding.chain = holding.chain.block(block)
        self.name(holding)

    def _copy(self, source: Holding, target: Holding, start: int, stop: int) -> None:
        self._library.copy(source.sequence, target.sequence, start, stop)
        self.ledger.copy(source.sequence, target.sequence, start, stop)

    # -- finding -----------------------------------------------------------------------------

    def find(
        self, key: bytes, apart_from: Sequence[Holding] = (), start: int = 0, stop: int = 0
    ) -> Holding | None:
        """A holding that has exactly the context named by `key` in it, from its beginning.

        It shares no cell at positions [start, stop) with any of `apart_from`.
        """
        for holding in self._index.named(key):
            if not self._shares(holding, apart_from, start, stop):
                return holding
        return None

    def _shares(self, holding: Holding, others: Sequence[Holding], start: int, stop: int) -> bool:
        """Whether it has a cell at positions [start, stop) in common with any of `others`."""
        return any(
            self.ledger.share(holding.sequence, other.sequence, start, stop) for other in others
        )

    def longest(self, context: Context, root: KeyChain) -> Hit | None:
        """The longest resident part of `context` (normal form), from its beginning."""
        own = [holding for holding in self if holding.root == root]
        return self._index.longest(context, root, own)

    # -- room --------------------------------------------------------------------------------

    @property
    def cells_to_be_had(self) -> int:
        """Free cells, and those of idle contexts."""
        census = self.ledger.census
        return census.free + census.idle

    @property
    def sequences_to_be_had(self) -> int:
        """Free sequences, and those of idle contexts."""
        return self.sequences - sum(holding.pins > 0 for holding in self)

    def make_room(self, cells: int) -> bool:
        """Evict idle holdings until `cells` cells are free; false when that is not enough."""
        while self.ledger.free < cells:
            if not self.evict_one():
                return False
        return True

    def drop_idle(self) -> None:
        """Evict all that is not pinned."""
        while self.evict_one():
            pass

    def evict_one(self) -> bool:
        """Evict the idle holding that was touched longest ago; false when there is none."""
        idle = [holding for holding in self if holding.pins == 0]
        if not idle:
            return False
        self._forget(min(idle, key=lambda holding: holding.used))
        self.evictions += 1
        return True

    def _trim(self) -> None:
        """Keep idle cells under their cap."""
        while self.ledger.census.idle > self.idle_cap:
            self.evict_one()

    def _touch(self, holding: Holding) -> None:
        holding.used = next(self._clock)

    def check(self) -> None:
        """Assert that the accounting is exact, against the library where it can tell."""
        self.ledger.check()
        assert self.ledger.census.idle <= self.idle_cap, "idle contexts exceed their share"
        assert len(self._free_sequences) + len(self._holdings) == self.sequences
        for holding in self:
            idle = self.ledger.use_of(holding.sequence) is Use.IDLE
            assert idle == (holding.pins == 0), "a pinned holding is idle, or the other way round"
            end = self._library.last_position(holding.sequence) + 1
            assert end >= holding.chain.position, "the library holds less than the books say"
