"""Contexts of tenants hang apart in the tree of KV slots, and are evicted like all others."""

from __future__ import annotations

import torch

from multiverse_worker.engines.sglang.kv_tree import KvTree

IDS = tuple(range(1, 11))


def test_a_tenant_finds_its_own_context_and_no_other() -> None:
    tree = KvTree()
    own, _ = tree.insert(tree.tenant(b"one"), IDS, 0, torch.arange(10))
    assert tree.walk(tree.tenant(b"one"), IDS, 0) == (own, 10)
    for other in (b"two", b""):
        assert tree.walk(tree.tenant(other), IDS, 0)[1] == 0
    assert tree.row(own).tolist() == list(range(10))
    tree.check()


def test_joins_of_tenants_are_apart_and_all_of_it_is_evicted() -> None:
    tree = KvTree()
    ends = []
    for number, salt in enumerate((b"one", b"two", b"")):
        at = 30 * number
        fork, _ = tree.insert(tree.tenant(salt), IDS, 0, torch.arange(at, at + 10))
        path, _ = tree.insert(fork, (7,), 10, torch.tensor([at + 10]))
        ends.append(tree.join(fork, (path,), 11))
    assert len(set(ends)) == 3
    assert all(tree.row(end).numel() == 11 for end in ends)
    tree.lock(ends[0])
    tree.check()
    assert len(tree.evict(100)) == 22
    tree.unlock(ends[0])
    assert len(tree.evict(100)) == 11
    tree.check()
    assert tree.root.is_leaf
