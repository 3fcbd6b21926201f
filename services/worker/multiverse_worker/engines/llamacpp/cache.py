"""Resident contexts: which context trees the KV pool holds, found by content key.

A holding is one llama.cpp sequence with the spine of the context in it. Knows keys, tokens
and sequences. Must not know branches or scheduling.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.engines.llamacpp.cells import CellLedger
from multiverse_worker.engines.llamacpp.library import Library


class NoRoomError(Exception):
    """All sequences are in use, or all cells are pinned: wait for others to end."""


@dataclass(slots=True, eq=False)
class Holding:
    """A context whose KV is resident in one sequence."""

    sequence: int
    chain: KeyChain  # key and next position of all that is held
    ids: list[int] = field(default_factory=list)  # of the spine's texts
    positions: list[int] = field(default_factory=list)  # of the same tokens, ascending
    names: dict[bytes, int] = field(default_factory=dict)  # content key -> next position
    pins: int = 0  # branches and leases; 0: idle, may be evicted
    used: int = 0  # when it was last touched


@dataclass(frozen=True, slots=True)
class Hit:
    """The longest part of a context that a holding has."""

    holding: Holding
    chain: KeyChain  # of that part
    item: int  # it ends in this item of the context ...
    offset: int  # ... before this token of it


class KvCache:
    """Opens, copies, names, finds and evicts holdings. All cells of the pool belong to one."""

    def __init__(self, library: Library, cells: int, sequences: int, namespace: str) -> None:
        self._library = library
        self.ledger = CellLedger(cells)
        self.root = KeyChain.root(namespace)
        self._idle_cap = cells // 4  # every query scans all used cells: idle ones cost time
        self._free_sequences = list(range(sequences - 1, -1, -1))
        self._holdings: dict[int, Holding] = {}
        self._index: dict[bytes, dict[int, Holding]] = {}
        self._clock = itertools.count()

    # -- life of a holding -----------------------------------------------------------------

    def open(self, chain: KeyChain) -> Holding:
        """A new empty holding with one pin. NoRoomError when no sequence can be had."""
        if not self._free_sequences and not self._evict_one():
            raise NoRoomError
        holding = Holding(self._free_sequences.pop(), chain, pins=1)
        self.ledger.open(holding.sequence)
        self._holdings[holding.sequence] = holding
        self._touch(holding)
        return holding

    def unpin(self, holding: Holding) -> None:
        """Drop one pin; without pins the holding is ordinary cache."""
        assert holding.pins > 0, "unpinned more often than pinned"
        holding.pins -= 1
        if holding.pins == 0:
            self._touch(holding)
            self._trim()

    def discard(self, holding: Holding) -> None:
        """Drop one pin, and the holding itself when that was the last."""
        assert holding.pins > 0, "discarded more often than pinned"
        holding.pins -= 1
        if holding.pins == 0:
            self._forget(holding)

    def _forget(self, holding: Holding) -> None:
        for key in holding.names:
            entry = self._index[key]
            del entry[holding.sequence]
            if not entry:
                del self._index[key]
        del self._holdings[holding.sequence]
        self._library.remove(holding.sequence)
        self.ledger.close(holding.sequence)
        self._free_sequences.append(holding.sequence)

    # -- content -----------------------------------------------------------------------------

    def grow(self, holding: Holding, ids: list[int]) -> None:
        """Record that `ids` were computed at the end of the holding."""
        start = holding.chain.position
        self.ledger.append(holding.sequence, start, len(ids))
        self._extend(holding, tuple(ids))

    def _extend(self, holding: Holding, ids: tuple[int, ...]) -> None:
        start = holding.chain.position
        holding.ids.extend(ids)
        holding.positions.extend(range(start, start + len(ids)))
        for chain in holding.chain.text(ids):
            holding.chain = chain
            if not chain.pending:
                self._name(holding, chain)

    def name(self, holding: Holding) -> bytes:
        """Give the present end of the holding its key."""
        return self._name(holding, holding.chain)

    def _name(self, holding: Holding, chain: KeyChain) -> bytes:
        key = chain.end
        holding.names[key] = chain.position
        self._index.setdefault(key, {})[holding.sequence] = holding
        return key

    def adopt(self, target: Holding, hit: Hit) -> None:
        """Let an empty `target` hold what `hit` found."""
        source, stop = hit.holding, hit.chain.position
        self._touch(source)
        self._copy(source, target, 0, stop)
        kept = next((n for n, at in enumerate(source.positions) if at >= stop), None)
        target.ids = source.ids[:kept]
        target.positions = source.positions[:kept]
        target.chain = hit.chain
        for key, position in source.names.items():
            if position <= stop:
                target.names[key] = position
                self._index[key][target.sequence] = target

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
        for key in source.names:
            target.names[key] = source.names[key]
            self._index[key][target.sequence] = target

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
        for holding in self._index.get(key, {}).values():
            if not any(
                self.ledger.share(holding.sequence, other.sequence, start, stop)
                for other in apart_from
            ):
                return holding
        return None

    def longest(self, context: Context, chain: KeyChain, item: int = 0) -> Hit | None:
        """The longest resident part of `context` (normal form), which continues `chain`.

        Named places are chunk borders, ends of runs and closed blocks; from the last named
        place on, token ids are compared.
        """
        best: tuple[KeyChain, int, int] | None = None
        for number, part in enumerate(context[item:], item):
            if isinstance(part, Text):
                offset = 0
                for link in chain.text(part.ids):
                    offset += link.position - chain.position
                    chain = link
                    if link.end in self._index:
                        best = (link, number, offset)
            else:
                chain = chain.block(part)
                if chain.end in self._index:
                    best = (chain, number + 1, 0)
        chain, number, offset = best or (self.root, 0, 0)
        if best is None and not self._holdings:
            return None
        holders = self._index[chain.end].values() if best else self._holdings.values()
        return self._extended(list(holders), chain, context, number, offset)

    def _extended(
        self, holders: list[Holding], chain: KeyChain, context: Context, number: int, offset: int
    ) -> Hit | None:
        """Of `holders`, all of which have `chain`, the one that goes on longest as `context`."""
        if number < len(context) and isinstance(context[number], Text):
            text = context[number]
            if isinstance(text, Text) and offset == len(text.ids):
                number, offset = number + 1, 0
        item = context[number] if number < len(context) else None
        rest = item.ids[offset:] if isinstance(item, Text) else ()
        lengths = [_common(holding, chain.position, rest) for holding in holders]
        best = max(range(len(holders)), key=lambda index: (lengths[index], holders[index].used))
        length = lengths[best]
        if length == 0 and chain == self.root:
            return None
        links = chain.text(rest[:length])
        return Hit(holders[best], links[-1] if links else chain, number, offset + length)

    # -- room --------------------------------------------------------------------------------

    def make_room(self, cells: int) -> bool:
        """Evict idle holdings until `cells` cells are free; false when that is not enough."""
        while self.ledger.free < cells:
            if not self._evict_one():
                return False
        return True

    def drop_idle(self) -> None:
        """Evict all that is not pinned."""
        while self._evict_one():
            pass

    def _evict_one(self) -> bool:
        """Evict the idle holding that was touched longest ago."""
        idle = [holding for holding in self._holdings.values() if holding.pins == 0]
        if not idle:
            return False
        self._forget(min(idle, key=lambda holding: holding.used))
        return True

    def _trim(self) -> None:
        """Keep idle cells under their cap."""
        pinned = [h.sequence for h in self._holdings.values() if h.pins]
        while True:
            used = self.ledger.total - self.ledger.free
            if used - self.ledger.held_by(pinned) <= self._idle_cap or not self._evict_one():
                return

    def _touch(self, holding: Holding) -> None:
        holding.used = next(self._clock)

    def check(self) -> None:
        """Assert that the accounting is exact, against the library where it can tell."""
        self.ledger.check()
        for holding in self._holdings.values():
            end = self._library.last_position(holding.sequence) + 1
            assert end >= holding.chain.position, "the library holds less than the books say"


def _common(holding: Holding, position: int, ids: tuple[int, ...]) -> int:
    """How many of `ids` the holding has at consecutive positions from `position` on."""
    at = bisect_left(holding.positions, position)
    length = 0
    for index, wanted in zip(range(at, len(holding.ids)), ids, strict=False):
        if holding.positions[index] != position + length or holding.ids[index] != wanted:
            break
        length += 1
    return length
