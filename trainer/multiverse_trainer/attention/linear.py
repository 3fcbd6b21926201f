"""Blocks of rule "linear" as one tree that a single forward pass can train.

At serving time such a block is read twice: open, each path alone; then closed, as plain text
that everything after it sees. Both stand side by side in one block under the stitch rule:

    a Block(p, q) b  ->  a Block[ (Block[p, q],), (p q b) ]

The second copy of the paths is marked written: it bears no loss.
"""

from __future__ import annotations

from dataclasses import replace

from multiverse_shared.tree import Block, Context, JoinRule, texts


def unfold(context: Context) -> Context:
    """The tree to train on; trees of other rules are returned unchanged."""
    for index, item in enumerate(context):
        if isinstance(item, Block) and item.rule is JoinRule.LINEAR:
            paths = tuple(unfold(path) for path in item.paths)
            alone = Block(paths, closed=False, path_offset=item.path_offset)
            if not item.closed:
                return (*context[:index], alone)
            again = tuple(
                replace(text, written=True) for path in item.paths for text in texts(path)
            )
            rest = unfold((*again, *context[index + 1 :]))
            return (*context[:index], Block(((alone,), rest), closed=False))
    return context
