"""Layouts of ablations: each differs from the served one in the one thing that it is named for."""

from __future__ import annotations

import torch

from multiverse_shared.layout import positions
from multiverse_shared.tree import Block, Context, Text, count
from multiverse_trainer.attention.ablation import Layout, lay_out
from multiverse_trainer.attention.masks import dense_mask
from multiverse_trainer.attention.spans import runs_of, span_table

# Eleven tokens, numbered in linear order; the second of three paths forks again.
TREE: Context = (
    Text((0, 1)),
    Block(
        (
            (Text((2, 3)),),
            (Text((4,)), Block(((Text((5,)),), (Text((6,)),))), Text((7,))),
            (Text((8, 9)),),
        )
    ),
    Text((10,)),
)


def seen(layout: Layout) -> torch.Tensor:
    first, last = span_table([runs_of(lay_out(TREE, layout)[1])], count(TREE))
    return dense_mask(torch.from_numpy(first), torch.from_numpy(last))[0, 0]


def test_positions_restart_run_on_or_drift() -> None:
    served = positions(TREE)
    assert served == [0, 1, 2, 3, 2, 3, 3, 4, 2, 3, 5]
    assert lay_out(TREE, Layout.SERVED)[0] == served
    assert lay_out(TREE, Layout.NO_RESTART)[0] == list(range(11))
    assert lay_out(TREE, Layout.NO_ISOLATION)[0] == lay_out(TREE, Layout.LEAK)[0] == served
    # A block adds two to what follows it, and a nested one two more.
    assert lay_out(TREE, Layout.DRIFT)[0] == [0, 1, 3, 4, 3, 5, 5, 7, 3, 4, 9]


def test_without_isolation_all_that_stands_before_is_seen() -> None:
    assert torch.equal(seen(Layout.NO_ISOLATION), torch.ones(11, 11).tril().bool())
    for layout in (Layout.NO_RESTART, Layout.DRIFT):
        assert torch.equal(seen(layout), seen(Layout.SERVED))


def test_what_leaks_is_the_last_token_of_each_earlier_sibling() -> None:
    more = (seen(Layout.LEAK) & ~seen(Layout.SERVED)).nonzero().tolist()
    of_the_first = [[token, 3] for token in (4, 5, 6, 7, 8, 9)]
    assert sorted(more) == sorted([*of_the_first, [6, 5], [8, 7], [9, 7]])
    assert not (seen(Layout.SERVED) & ~seen(Layout.LEAK)).any()
