"""The context tree of KV slots: right rows, exact accounting, nothing evicted that is locked."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.layout import block_end, positions
from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from tests.conformance.trees import random_tree, with_ids


@dataclass
class Pool:
    """Slots, each with the id and the position that was computed into it."""

    tree: KvTree = field(default_factory=KvTree)
    content: dict[int, tuple[int, int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=lambda: list(range(100_000)))

    def load(self, context: Context) -> Node:
        node, _ = self._load(self.tree.root, 0, normalise(context))
        return node

    def _load(self, node: Node, at: int, context: Context) -> tuple[Node, int]:
        for item in context:
            if isinstance(item, Text):
                node, found = self.tree.walk(node, item.ids, at)
                rest = item.ids[found:]
                slots = [self.free.pop() for _ in rest]
                for offset, (slot, token) in enumerate(zip(slots, rest, strict=True)):
                    self.content[slot] = (token, at + found + offset)
                node, duplicates = self.tree.insert(node, rest, at + found, torch.tensor(slots))
                self.free += duplicates.tolist()
                at += len(item.ids)
            else:
                ends = tuple(self._load(node, at, path)[0] for path in item.paths)
                at = block_end(item, at)
                node = self.tree.join(node, ends, at)
        return node, at

    def read(self, node: Node) -> list[tuple[int, int]]:
        return [self.content[slot] for slot in self.tree.row(node).tolist()]

    def evict(self, tokens: int) -> None:
        self.free += self.tree.evict(tokens).tolist()


def trees(seed: int, number: int, different_ids: int) -> list[Context]:
    rng = random.Random(seed)
    shapes = [random_tree(rng, rng.randint(4, 60)) for _ in range(number)]
    return [
        with_ids(shape, [rng.randrange(different_ids) for _ in range(count(shape))])
        for shape in shapes
    ]


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 500]))
@settings(deadline=None, max_examples=40)
def test_a_row_holds_ids_and_positions_of_the_context_in_linear_order(
    seed: int, different_ids: int
) -> None:
    pool = Pool()
    held = [(context, pool.load(context)) for context in trees(seed, 6, different_ids)]
    pool.tree.check()
    for context, node in held:
        wanted = list(zip(linearise(context), positions(context), strict=True))
        assert pool.read(node) == wanted
        assert node.length == len(wanted)


@given(st.integers(0, 10_000), st.sampled_from([2, 500]))
@settings(deadline=None, max_examples=40)
def test_eviction_leaves_locked_contexts_whole_and_gives_back_every_slot(
    seed: int, different_ids: int
) -> None:
    rng = random.Random(seed)
    pool = Pool()
    locked: list[tuple[Context, Node]] = []
    for context in trees(seed, 10, different_ids):
        node = pool.load(context)
        if rng.random() < 0.5:
            pool.tree.lock(node, lease=True)
            locked.append((context, node))
            assert pool.tree.leased == pool.tree.locked
        if rng.random() < 0.5:
            pool.evict(rng.randint(1, 40))
        if locked and rng.random() < 0.3:
            pool.tree.unlock(locked.pop(rng.randrange(len(locked)))[1], lease=True)
        pool.tree.check()
        for kept, end in locked:
            assert pool.read(end) == list(zip(linearise(kept), positions(kept), strict=True))
    pool.evict(1 << 30)
    assert pool.tree.evictable == 0  # all that is said to be evictable is
    for _, node in locked:
        pool.tree.unlock(node, lease=True)
    assert pool.tree.locked == 0
    pool.evict(1 << 30)
    pool.tree.check()
    assert pool.tree.evictable == 0
    assert sorted(pool.free) == list(range(100_000))


def test_equal_ids_behind_unequal_contexts_are_told_apart() -> None:
    pool = Pool()
    pool.load((Text((1, 2)), Block(((Text((3,)),), (Text((4,)),))), Text((5, 6))))
    before = pool.tree.evictable
    pool.load((Text((1, 2, 3, 4, 5, 6)),))
    # Resident of the plain text: 1, 2 and the 3 of the first path. Not 4, 5 and 6.
    assert pool.tree.evictable == before + 3


def test_paths_in_another_order_are_another_context() -> None:
    pool = Pool()
    one = pool.load((Text((1,)), Block(((Text((2,)),), (Text((3,)),)))))
    other = pool.load((Text((1,)), Block(((Text((3,)),), (Text((2,)),)))))
    assert one is not other
    assert pool.tree.evictable == 3


def test_equal_paths_share_their_slots_and_count_twice_in_the_row() -> None:
    pool = Pool()
    node = pool.load((Text((1,)), Block(((Text((2, 3)),), (Text((2, 3)),), ())), Text((4,))))
    assert pool.read(node) == [(1, 0), (2, 1), (3, 2), (2, 1), (3, 2), (4, 3)]
    assert pool.tree.evictable == 4


def test_the_context_untouched_longest_goes_first() -> None:
    pool = Pool()
    old = pool.load((Text((1, 2)),))
    pool.load((Text((3, 4)),))
    pool.tree.lock(old)
    pool.tree.unlock(old)
    pool.evict(1)
    assert pool.tree.walk(pool.tree.root, (1, 2), 0)[1] == 2
    assert pool.tree.walk(pool.tree.root, (3, 4), 0)[1] == 0
