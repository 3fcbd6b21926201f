"""Finds resident contexts by content key, and by token ids from the last key on.

Knows keys and tokens. Must not know what a holding's sequence is for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Context, Text
from multiverse_worker.cache_journal import CacheChanges

_REMEMBERED = 8  # contexts whose names are kept for who asks next


@dataclass(slots=True, eq=False)
class Holding:
    """A context whose KV is resident in one sequence."""

    sequence: int
    root: KeyChain  # of the tenant whose context it is
    chain: KeyChain  # key and next position of all that is held
    ids: list[int] = field(default_factory=list)  # of the spine's texts
    positions: list[int] = field(default_factory=list)  # of the same tokens, ascending
    names: dict[bytes, int] = field(default_factory=dict)  # content key -> next position
    folded: dict[bytes, int] = field(default_factory=dict)  # the same of paths behind the spine
    pins: int = 0  # branches and leases; 0: idle, may be evicted
    used: int = 0  # when it was last touched


@dataclass(frozen=True, slots=True)
class Hit:
    """The longest part of a context that a holding has."""

    holding: Holding
    chain: KeyChain  # of that part
    item: int  # it ends in this item of the context ...
    offset: int  # ... before this token of it


class KeyIndex:
    """Content key -> the holdings that have exactly that context in them, from their beginning."""

    def __init__(self) -> None:
        self._holdings: dict[bytes, dict[int, Holding]] = {}
        self.changes = CacheChanges()

    def __len__(self) -> int:
        return len(self._holdings)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._holdings)

    def add(self, holding: Holding, key: bytes, position: int) -> None:
        holding.names[key] = position
        if key not in self._holdings:
            self._holdings[key] = {}
            self.changes.held(key)
        self._holdings[key][holding.sequence] = holding

    def remove(self, holding: Holding) -> None:
        """Forget all names of a holding."""
        for key in holding.names:
            self._drop(holding, key)

    def cut(self, holding: Holding, position: int) -> None:
        """Its spine ends before `position` now: forget names and ids from there on."""
        for key in [key for key, at in holding.names.items() if at > position]:
            del holding.names[key]
            self._drop(holding, key)
        kept = bisect_left(holding.positions, position)
        del holding.ids[kept:], holding.positions[kept:]

    def _drop(self, holding: Holding, key: bytes) -> None:
        entry = self._holdings[key]
        del entry[holding.sequence]
        if not entry:
            del self._holdings[key]
            self.changes.gone(key)

    def named(self, key: bytes) -> Iterator[Holding]:
        return iter(self._holdings.get(key, {}).values())

    def longest(
        self, context: Context, root: KeyChain, resident: Collection[Holding]
    ) -> Hit | None:
        """The longest part of `context` (normal form) among `resident`, all of one `root`.

        Named places are chunk borders, ends of runs and closed blocks; from the last named
        place on, token ids are compared.
        """
        places = reversed(_places(context, root))
        best = next((place for place in places if place.chain.end in self._holdings), None)
        if best is None and not resident:
            return None
        chain, number, offset = best or (root, 0, 0)
        holders = self._holdings[chain.end].values() if best else resident
        found = self._extended(list(holders), chain, context, number, offset)
        return found if best or found.chain != root else None

    def _extended(
        self, holders: list[Holding], chain: KeyChain, context: Context, number: int, offset: int
    ) -> Hit:
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
        links = chain.text(rest[:length])
        return Hit(holders[best], links[-1] if links else chain, number, offset + length)


class _Place(NamedTuple):
    """A place in a context that has a name: before token `offset` of an item."""

    chain: KeyChain
    item: int
    offset: int


@lru_cache(maxsize=_REMEMBERED)
def _places(context: Context, root: KeyChain) -> tuple[_Place, ...]:
    """In their order. Siblings ask for the same, and each of them twice."""
    places: list[_Place] = []
    chain = root
    for number, part in enumerate(context):
        if isinstance(part, Text):
            offset = 0
            for link in chain.text(part.ids):
                offset += link.position - chain.position
                chain = link
                places.append(_Place(link, number, offset))
        else:
            chain = chain.block(part)
            places.append(_Place(chain, number + 1, 0))
    return tuple(places)


def _common(holding: Holding, position: int, ids: tuple[int, ...]) -> int:
    """How many of `ids` the holding has at consecutive positions from `position` on."""
    at = bisect_left(holding.positions, position)
    length = 0
    for index, wanted in zip(range(at, len(holding.ids)), ids, strict=False):
        if holding.positions[index] != position + length or holding.ids[index] != wanted:
            break
        length += 1
    return length
