"""A tree of tokens as flat arrays: where each token stands, what it sees, what it is learned from.

Knows the layout functions of `multiverse_shared`. Must not know tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multiverse_shared.layout import Segment
from multiverse_shared.tree import Context, Text, linearise, texts
from multiverse_trainer.attention.ablation import Layout, lay_out
from multiverse_trainer.attention.linear import unfold

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Example:
    """S tokens in linear order, of which N bear loss.

    Token `targets[n]` is predicted at token `sources[n]`, the one that it follows at serving
    time: the one before it in its path; for the first of a path the one before the block. So
    two targets may have one source.
    """

    ids: Ints  # [S]
    positions: Ints  # [S]
    segments: tuple[Segment, ...]
    sources: Ints  # [N] linear indices
    targets: Ints  # [N] linear indices

    def __len__(self) -> int:
        return len(self.ids)


def make_example(
    context: Context, prompt_items: int = 1, layout: Layout = Layout.SERVED
) -> Example:
    """Loss on every token that the model writes; the first `prompt_items` items bear none."""
    tree = unfold(context)
    positions, segments = lay_out(tree, layout)
    before = _sources(tree)
    learned = np.zeros(len(before), bool)
    at = sum(len(text.ids) for text in texts(tree[:prompt_items]))
    for text in texts(tree[prompt_items:]):
        learned[at : at + len(text.ids)] = not text.written
        at += len(text.ids)
    targets = np.flatnonzero(learned & (before >= 0))
    return Example(
        np.array(linearise(tree), np.int32),
        np.array(positions, np.int32),
        tuple(segments),
        before[targets],
        targets.astype(np.int32),
    )


def _sources(tree: Context) -> Ints:
    """The token that each token follows; -1 for the first."""
    out: list[int] = []
    _follow(tree, -1, out)
    return np.array(out, np.int32)


def _follow(context: Context, before: int, out: list[int]) -> None:
    for item in context:
        if isinstance(item, Text):
            for _ in item.ids:
                out.append(before)
                before = len(out) - 1
        else:
            size = len(out)
            for path in item.paths:
                _follow(path, before, out)
            if len(out) > size:  # the token after a block follows the last one inside it
                before = len(out) - 1
