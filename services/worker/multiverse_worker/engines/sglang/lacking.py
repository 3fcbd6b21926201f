"""Which pieces of a context are not resident. Knows the tree and names; changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from multiverse_shared.keys import KeyChain, after
from multiverse_shared.layout import block_end
from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.tier.pieces import Piece, pieces

# The key chain at some place. Keys are hashes of all that is before: made when they are needed.
Chain: TypeAlias = Callable[[], KeyChain]


def chain_at(before: Context, chain: Chain) -> Chain:
    """The chain behind `before`, which begins at `chain`."""
    return cache(lambda: after(before, chain()))


def chain_into(block: Block, chain: Chain) -> Chain:
    """The chain where the paths of a block begin, which opens at `chain`."""
    return cache(lambda: chain().into(block))


def lacking(
    tree: KvTree, node: Node | None, at: int, context: Context, chain: Chain
) -> tuple[list[Piece], Node | None]:
    """What of `context` (normal form), which goes on from `node`, is missing, in linear order;
    and where it ends, if nothing is."""
    missing: list[Piece] = []
    for number, item in enumerate(context):
        if isinstance(item, Text):
            at = item.start if item.start is not None else at
            node, found = tree.walk(node, item.ids, at) if node else (None, 0)
            if found < len(item.ids):
                missing += behind(found, item, chain_at(context[:number], chain)())
                node = None
            at += len(item.ids)
        else:
            ends: list[Node] = []
            inner = chain_into(item, chain_at(context[:number], chain))
            for path in item.paths:
                rest, end = lacking(tree, node, at + item.path_offset, path, inner)
                missing += rest
                if end:
                    ends.append(end)
            at = block_end(item, at)
            whole = node is not None and len(ends) == len(item.paths)
            node = tree.joined(node, tuple(ends), at) if node and whole else None
    return missing, node


def behind(found: int, text: Text, chain: KeyChain) -> list[Piece]:
    """The pieces of a text of which the first `found` ids are there already."""
    missing: list[Piece] = []
    stop = 0
    for piece in pieces((text,), chain):
        stop += len(piece.ids)
        if stop > found:
            missing.append(piece)
    return missing
