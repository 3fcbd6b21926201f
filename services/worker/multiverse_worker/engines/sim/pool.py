"""The simulated KV pool: every token that is held is held once, by what it follows.

Segments make a graph: a segment rests on the one before it, a join also on the ends of its
paths. So equal contexts share their cells to the token. Exact accounting: free + held = pool;
what is neither pinned nor rested on is idle and goes first, oldest use first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Block
from multiverse_worker.cache_journal import CacheChanges
from multiverse_worker.contract import Ids


@dataclass(slots=True, eq=False)
class Segment:
    """Tokens at consecutive positions, or a join (no tokens). `chain` is the key at its end."""

    before: Segment | None  # None: the root, which is always there
    start: int  # position of its first token
    ids: Ids
    chain: KeyChain
    joined: tuple[Segment, ...] = ()
    names: tuple[KeyChain, ...] = ()  # places in it whose content keys were told
    children: dict[tuple[int, int], Segment] = field(default_factory=dict)  # position, first id
    holders: int = 0  # pins, and segments that rest on it

    @property
    def rests_on(self) -> tuple[Segment, ...]:
        return (self.before, *self.joined) if self.before else ()


@dataclass(slots=True, eq=False)
class Growth:
    """Tokens that one branch computes behind a segment that it has pinned; nobody sees them."""

    at: Segment
    start: int
    ids: list[int] = field(default_factory=list)


class Account(NamedTuple):
    """Who holds the cells of a pool; the four add up to all of them."""

    free: int
    used: int  # by branches
    leased: int  # by leases only
    idle: int


class KvPool:
    """Finds, grows, pins and evicts. Not thread-safe."""

    def __init__(self, cells: int, namespace: str) -> None:
        self.cells = cells
        self.free = cells
        self._namespace = namespace
        self.root = Segment(None, 0, (), KeyChain.root(namespace), holders=1)
        self._salted: dict[bytes, Segment] = {}  # roots of tenants
        self._joins: dict[bytes, Segment] = {}
        self._growths: set[Growth] = set()
        self._idle: OrderedDict[Segment, None] = OrderedDict()
        self.changes = CacheChanges()

    def root_of(self, salt: bytes) -> Segment:
        """Where the contexts of a tenant begin: nobody finds those of another one."""
        if not salt:
            return self.root
        root = self._salted.get(salt)
        if root is None:
            chain = KeyChain.root(self._namespace, salt)
            root = self._salted[salt] = Segment(None, 0, (), chain, holders=1)
        return root

    @property
    def names(self) -> Iterator[bytes]:
        """Content keys that were told and are held."""
        return (name.end for segment in self._tree() for name in segment.names)

    # -- pins ----------------------------------------------------------------------------------

    def pin(self, segment: Segment) -> None:
        segment.holders += 1
        self._idle.pop(segment, None)

    def unpin(self, segment: Segment) -> None:
        assert segment.holders > 0, "unpinned more often than pinned"
        segment.holders -= 1
        if segment.holders == 0:
            self._idle[segment] = None

    # -- content -------------------------------------------------------------------------------

    def match(self, at: Segment, start: int, ids: Ids) -> tuple[Segment, int]:
        """The segment that ends the longest held part of `ids` behind `at`, and its length."""
        length = 0
        while length < len(ids):
            child = at.children.get((start + length, ids[length]))
            if child is None:
                break
            common = _common(child.ids, ids, length)
            if common < len(child.ids):
                return self._split(child, common), length + common
            at, length = child, length + common
        return at, length

    def _split(self, segment: Segment, length: int) -> Segment:
        """Cut `segment` in two; it keeps its end, and the first `length` tokens are returned."""
        before = segment.before
        assert before is not None
        ids = segment.ids[:length]
        chain = before.chain.moved(segment.start).text(ids)[-1]
        front = Segment(before, segment.start, ids, chain, holders=1)
        before.children[segment.start, ids[0]] = front
        segment.before, segment.start = front, segment.start + length
        segment.ids = segment.ids[length:]
        front.names = tuple(name for name in segment.names if name.position <= segment.start)
        segment.names = segment.names[len(front.names) :]
        front.children[segment.start, segment.ids[0]] = segment
        return front

    def grow(self, at: Segment, start: int) -> Growth:
        """Begin to compute behind `at`, which stays pinned by the caller until `settle`."""
        growth = Growth(at, start)
        self._growths.add(growth)
        return growth

    def settle(self, growth: Growth) -> Segment:
        """What has grown becomes findable; tokens that are held already give their cells back.

        The segment at its end is idle unless it was pinned before: pin it.
        """
        self._growths.remove(growth)
        at, known = self.match(growth.at, growth.start, tuple(growth.ids))
        self.free += known
        ids = tuple(growth.ids[known:])
        if not ids:
            return at
        start = growth.start + known
        names = at.chain.moved(start).text(ids)
        segment = Segment(at, start, ids, names[-1])
        self._name(segment, *names)
        at.children[start, ids[0]] = segment
        self.pin(at)
        self._idle[segment] = None
        return segment

    def joined(self, at: Segment, start: int, block: Block) -> Segment | None:
        """The join of `block` behind `at` (the block opens at position `start`), if held."""
        return self._joins.get(at.chain.moved(start).block(block).end)

    def join(self, at: Segment, start: int, block: Block, ends: tuple[Segment, ...]) -> Segment:
        """The same, made from the ends of its paths where it is not held. Pin it."""
        chain = at.chain.moved(start).block(block)
        if chain.end in self._joins:
            return self._joins[chain.end]
        segment = Segment(at, chain.position, (), chain, ends)
        self._name(segment, chain)
        for rest in segment.rests_on:
            self.pin(rest)
        self._joins[chain.end] = segment
        self._idle[segment] = None
        return segment

    def _name(self, segment: Segment, *names: KeyChain) -> None:
        segment.names = names
        for name in names:
            self.changes.held(name.end)

    # -- room ----------------------------------------------------------------------------------

    def make_room(self, cells: int) -> bool:
        """Evict what is idle until `cells` cells are free; false when that is not enough."""
        while self.free < cells:
            if not self._idle:
                return False
            self._evict()
        return True

    def drop_idle(self) -> None:
        while self._idle:
            self._evict()

    def _evict(self) -> None:
        """Forget what was used longest ago; what it alone rested on is next."""
        segment, _ = self._idle.popitem(last=False)
        self.free += len(segment.ids)
        for name in segment.names:
            self.changes.gone(name.end)
        if segment.ids:
            assert segment.before is not None
            del segment.before.children[segment.start, segment.ids[0]]
        else:
            del self._joins[segment.chain.end]
        for rest in segment.rests_on:
            self.unpin(rest)
            if rest.holders == 0:
                self._idle.move_to_end(rest, last=False)

    # -- accounting ------------------------------------------------------------------------------

    def account(self, branches: Iterable[Segment], leases: Iterable[Segment]) -> Account:
        """Who holds what, when these segments are pinned by branches and by leases."""
        used, leased = _reached(branches), _reached(leases)
        grown = sum(len(growth.ids) for growth in self._growths)
        idle = self._tree() - used - leased
        return Account(self.free, grown + _cells(used), _cells(leased - used), _cells(idle))

    def check(self) -> None:
        """Assert that the books add up."""
        tree = self._tree()
        grown = sum(len(growth.ids) for growth in self._growths)
        assert self.free + _cells(tree) + grown == self.cells, "free + held != pool"
        rests = Counter(rest for segment in tree for rest in segment.rests_on)
        for segment in tree:
            assert segment.holders >= rests[segment], "holders are miscounted"
            assert (segment.holders == 0) == (segment in self._idle), "idle is miscounted"
        assert all(growth.at in tree for growth in self._growths), "a growth lost its ground"

    def _tree(self) -> set[Segment]:
        """All segments that can be found."""
        found: set[Segment] = set()
        left = [self.root, *self._salted.values(), *self._joins.values()]
        while left:
            segment = left.pop()
            found.add(segment)
            left.extend(segment.children.values())
        return found


def _reached(segments: Iterable[Segment]) -> set[Segment]:
    """These and all they rest on."""
    found: set[Segment] = set()
    left = list(segments)
    while left:
        segment = left.pop()
        if segment not in found:
            found.add(segment)
            left.extend(segment.rests_on)
    return found


def _cells(segments: Iterable[Segment]) -> int:
    return sum(len(segment.ids) for segment in segments)


def _common(held: Ids, ids: Ids, offset: int) -> int:
    """How many of `held` stand in `ids` from `offset` on."""
    wanted = ids[offset : offset + len(held)]
    if wanted == held:
        return len(held)
    pairs = enumerate(zip(held, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), len(wanted))
