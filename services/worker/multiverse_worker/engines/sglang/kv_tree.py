"""Resident contexts: one tree of KV slots, keyed by all that a token's KV depends on.

Fork and join move no KV: see `kv_node`. Where a node hangs says what its tokens see, so equal
ids behind unequal contexts never meet. Knows slots and locks; must not know branches or SGLang.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator

import torch

from multiverse_worker.contract import Ids
from multiverse_worker.engines.sglang.kv_node import NO_SLOTS, Node, join_key

_TENANT = -1  # no node has this number


class KvTree:
    """All slots that no running request owns: idle ones, leased ones, and ones in use."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._clock = itertools.count(1)
        self.evictions = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything. Nothing may hold a node."""
        self.root = Node(next(self._numbers), None, start=0, end=0, length=0)
        self.evictable = 0  # slots that nothing rests on
        self.leased = 0  # that only leases rest on
        self.used = 0
        self._nodes: set[Node] = set()

    @property
    def locked(self) -> int:
        return self.leased + self.used

    # -- finding -------------------------------------------------------------------------------

    def walk(self, node: Node, ids: Ids, start: int) -> tuple[Node, int]:
        """Follow `ids`, the first at position `start`; the end, and how many ids are resident."""
        done = 0
        while done < len(ids):
            child = node.texts.get((start + done, ids[done]))
            if child is None:
                break
            common = _common(child.ids, ids, done)
            node = self._split(child, common) if common < len(child.ids) else child
            done += common
            if node is not child:
                break
        return node, done

    def _split(self, node: Node, at: int) -> Node:
        """Cut a text before its token `at`; returns the upper part. `node` is the lower one."""
        parent = node.parent
        assert parent is not None
        upper = Node(
            next(self._numbers),
            parent,
            start=node.start,
            end=node.start + at,
            length=parent.length + at,
            ids=node.ids[:at],
            slots=node.slots[:at],
        )
        upper.locks, upper.leases, upper.touched = node.locks, node.leases, node.touched
        upper.prompt = node.prompt
        parent.texts[node.start, node.ids[0]] = upper
        node.parent, node.start = upper, node.start + at
        node.ids, node.slots = node.ids[at:], node.slots[at:]
        upper.texts[node.start, node.ids[0]] = node
        self._nodes.add(upper)
        return upper

    # -- prompts -------------------------------------------------------------------------------

    def note_prompt(self, salt: bytes, ids: Ids) -> None:
        """Requests of a tenant begin with `ids`: as far as they are resident."""
        node, _ = self.walk(self.tenant(salt), ids, 0)
        while node.ids:
            node.prompt = True
            assert node.parent is not None
            node = node.parent

    def text(self, node: Node) -> tuple[str, Ids] | None:
        """Whose context it is, and all its ids, if it is text from its start to `node`."""
        parts: list[Ids] = []
        while node.ids:
            parts.append(node.ids)
            assert node.parent is not None
            node = node.parent
        if node is not self.root and node.key[1:2] != (_TENANT,):
            return None
        owner = "-".join(f"{part:x}" for part in node.key[2:])
        return owner, tuple(itertools.chain.from_iterable(reversed(parts)))

    # -- growing -------------------------------------------------------------------------------

    def insert(
        self, node: Node, ids: Ids, start: int, slots: torch.Tensor
    ) -> tuple[Node, torch.Tensor]:
        """Take over `slots` [tokens], which hold `ids` behind `node`.

        Returns the end, and the slots of tokens that were resident already: they are still
        the caller's.
        """
        assert len(ids) == len(slots), "each token has a slot"
        node, done = self.walk(node, ids, start)
        if done == len(ids):
            return node, slots
        child = Node(
            next(self._numbers),
            node,
            start=start + done,
            end=start + len(ids),
            length=node.length + len(ids) - done,
            ids=tuple(ids[done:]),
            slots=slots[done:].clone(),
        )
        node.texts[child.start, child.ids[0]] = child
        self._add(child)
        self.evictable += len(child.ids)
        return child, slots[:done]

    def join(self, fork: Node, paths: tuple[Node, ...], end: int) -> Node:
        """The context behind a closed block that opens at `fork`; `end` is the next position."""
        return self._empty(fork, join_key(paths, end), end, paths)

    def joined(self, fork: Node, paths: tuple[Node, ...], end: int) -> Node | None:
        """What `join` has made of the same, if it is there."""
        return fork.joins.get(join_key(paths, end))

    def tenant(self, salt: bytes) -> Node:
        """Where the contexts of a tenant begin: nobody finds those of another one."""
        if not salt:
            return self.root
        return self._empty(self.root, (0, _TENANT, int.from_bytes(salt, "big")), 0, ())

    def _empty(self, above: Node, key: tuple[int, ...], end: int, paths: tuple[Node, ...]) -> Node:
        """The node without tokens that hangs under `key`."""
        node = above.joins.get(key)
        if node is None:
            length = above.length + sum(path.length - above.length for path in paths)
            number = next(self._numbers)
            node = Node(number, above, start=end, end=end, length=length, paths=paths, key=key)
            above.joins[key] = node
            for path in paths:
                path.uses += 1
            self._add(node)
        return node

    def _add(self, node: Node) -> None:
        self._nodes.add(node)
        node.touched = next(self._clock)

    # -- reading -------------------------------------------------------------------------------

    def row(self, node: Node) -> torch.Tensor:
        """[length] slots of the whole context in linear order."""
        parts = node.slots_behind(self.root)
        return torch.cat(parts) if parts else NO_SLOTS

    # -- locks ---------------------------------------------------------------------------------

    def lock(self, node: Node, *, lease: bool = False) -> None:
        """Keep all that the context of `node` rests on from eviction."""
        for part in node.rests_on(self.root):
            self._count(part, -1)
            part.locks += 1
            part.leases += lease
            self._count(part, 1)
            part.touched = next(self._clock)

    def unlock(self, node: Node, *, lease: bool = False) -> None:
        """Undo one `lock` of the same kind."""
        for part in node.rests_on(self.root):
            assert part.locks > 0, "unlocked more often than locked"
            self._count(part, -1)
            part.locks -= 1
            part.leases -= lease
            self._count(part, 1)

    def relock(self, old: Node, new: Node) -> None:
        """Lock `new`, to which only texts lead on from `old`, in place of `old`."""
        node = new
        while node is not old:
            self._count(node, -1)
            node.locks += 1
            self._count(node, 1)
            node.touched = next(self._clock)
            assert node.parent is not None
            node = node.parent

    def _count(self, node: Node, sign: int) -> None:
        slots = sign * len(node.ids)
        if node.locks == 0:
            self.evictable += slots
        elif node.locks == node.leases:
            self.leased += slots
        else:
            self.used += slots

    # -- room ----------------------------------------------------------------------------------

    def evict(
        self, tokens: int, leaving: Callable[[Node], None] = lambda prompt: None
    ) -> torch.Tensor:
        """Forget unlocked contexts, longest untouched first; returns at least `tokens` slots,
        or all there are. `leaving` is told of the end of each prompt while it is still there.
        """
        leaves = [
            (node.touched, node.number, node)
            for node in self._nodes
            if node.is_leaf and not node.locks
        ]
        heapq.heapify(leaves)
        freed: list[torch.Tensor] = []
        count = 0
        while leaves and count < tokens:
            *_, node = heapq.heappop(leaves)
            if node.prompt:
                leaving(node)
            if node.ids:
                freed.append(node.slots)
                count += len(node.ids)
            for above in self._forget(node):
                heapq.heappush(leaves, (above.touched, above.number, above))
        return torch.cat(freed) if freed else NO_SLOTS

    def _forget(self, node: Node) -> Iterator[Node]:
        """Drop a leaf; yields the nodes that have become unlocked leaves by it."""
        parent = node.parent
        assert parent is not None
        if not node.ids:
            del parent.joins[node.key]
        else:
            del parent.texts[node.start, node.ids[0]]
        self._nodes.discard(node)
        self.evictions += 1
        self.evictable -= len(node.ids)
        for path in node.paths:
            path.uses -= 1
        for above in {parent, *node.paths}:
            if above is not self.root and above.is_leaf and not above.locks:
                yield above

    # -- checks --------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert that the accounting is exact."""
        texts = [node for node in self._nodes if node.ids]
        leased = [n for n in texts if n.locks and n.locks == n.leases]
        assert sum(len(n.ids) for n in leased) == self.leased
        assert sum(len(n.ids) for n in texts if n.locks) == self.locked
        assert sum(len(n.ids) for n in texts if not n.locks) == self.evictable
        slots = [slot for node in texts for slot in node.slots.tolist()]
        assert len(set(slots)) == len(slots), "a slot belongs to two nodes"
        for node in self._nodes:
            assert len(node.ids) == len(node.slots)
            assert node.parent is self.root or node.parent in self._nodes
            assert all(path in self._nodes or path is self.root for path in node.paths)


def _common(held: Ids, wanted: Ids, offset: int) -> int:
    """How many of `held` agree with `wanted` from `offset` on."""
    rest = wanted[offset : offset + len(held)]
    if rest == held:
        return len(held)
    return next(
        (at for at, (a, b) in enumerate(zip(held, rest, strict=False)) if a != b), len(rest)
    )
