"""Masks of packed rows against the definitions; block masks against dense ones."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.nn.attention.flex_attention import create_mask

from multiverse_shared.layout import visibility
from multiverse_shared.tree import Block, Context, JoinRule, Text, count
from multiverse_trainer.attention.example import make_example
from multiverse_trainer.attention.linear import unfold
from multiverse_trainer.attention.masks import BLOCK, block_mask, dense_mask
from multiverse_trainer.attention.spans import runs_of, span_table
from tests.conformance.trees import random_tree
from tests.unit.shared.definition import Definition
from tests.unit.shared.strategies import few, ruled_trees

SMALL = ruled_trees(JoinRule.STITCH, 2)


def packed(rows: list[list[Context]], size: int) -> tuple[torch.Tensor, torch.Tensor]:
    runs = []
    for trees in rows:
        at, row = 0, []
        for tree in trees:
            row.extend(runs_of(visibility(tree), at))
            at += count(tree)
        runs.append(row)
    first, last = span_table(runs, size)
    return torch.from_numpy(first), torch.from_numpy(last)


@given(SMALL, SMALL, SMALL)
@few
def test_a_packed_row_is_the_masks_of_its_trees_side_by_side(
    one: Context, two: Context, three: Context
) -> None:
    size = max(count(one) + count(two), count(three)) + 3
    mask = dense_mask(*packed([[one, two], [three]], size))
    for row, trees in enumerate(([one, two], [three])):
        due = torch.eye(size, dtype=torch.bool)  # padding sees itself
        at = 0
        for tree in trees:
            seen = [[digit == "1" for digit in line] for line in Definition(tree).visible]
            if seen:
                due[at : at + len(seen), at : at + len(seen)] = torch.tensor(seen)
            at += len(seen)
        assert torch.equal(mask[row, 0], due)


@pytest.mark.parametrize("seed", range(6))
def test_the_block_grid_says_what_the_dense_mask_says(seed: int) -> None:
    rng = Random(seed)
    rows = [[random_tree(rng, rng.choice([50, 400, 900])) for _ in range(2)] for _ in range(2)]
    rows[0].append((Text((0,) * 700),))
    longest = max(sum(map(count, row)) for row in rows)
    size = -(-longest // BLOCK) * BLOCK
    first, last = packed(rows, size)
    dense = dense_mask(first, last)
    blocks = block_mask(first, last)
    assert torch.equal(create_mask(blocks.mask_mod, 2, None, size, size), dense)
    grid = dense.view(2, size // BLOCK, BLOCK, size // BLOCK, BLOCK)
    listed = np.zeros((2, size // BLOCK, size // BLOCK), int)  # 1 in part, 2 wholly
    for kind, counts, indices in (
        (1, blocks.kv_num_blocks, blocks.kv_indices),
        (2, blocks.full_kv_num_blocks, blocks.full_kv_indices),
    ):
        for row, query in np.ndindex(listed.shape[:2]):
            chosen = indices[row, 0, query, : int(counts[row, 0, query])].tolist()
            assert len(set(chosen)) == len(chosen)
            assert not listed[row, query, chosen].any()
            listed[row, query, chosen] = kind
    some, every = grid.any(4).any(2).numpy(), grid.all(4).all(2).numpy()
    assert np.array_equal(listed, some.astype(int) + every)
    assert {0, 1, 2} <= set(listed.flatten().tolist())


def test_rows_that_blocks_do_not_tile_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 128"):
        block_mask(*packed([[(Text((1, 2)),)]], 130))


def test_a_linear_block_is_read_open_and_closed() -> None:
    paths = ((Text((2, 3)),), (Text((4,)),))
    tree = (Text((1,)), Block(paths, JoinRule.LINEAR), Text((5,)))
    example = make_example(tree, prompt_items=0)
    assert example.ids.tolist() == [1, 2, 3, 4, 2, 3, 4, 5]
    assert example.positions.tolist() == [0, 1, 2, 1, 1, 2, 3, 4]
    assert example.targets.tolist() == [1, 2, 3, 7]  # the second copy bears no loss
    assert example.sources.tolist() == [0, 1, 0, 6]
    assert Definition(unfold(tree)).visible[7] == "10001111"


def test_trees_of_other_rules_are_not_unfolded() -> None:
    tree = random_tree(Random(3), 60)
    assert unfold(tree) == tree


def test_two_paths_without_headers_are_both_learned_from_the_token_before_the_block() -> None:
    tree = (Text((1,)), Block(((Text((2,)),), (Text((3,)),))), Text((4,)))
    example = make_example(tree)
    assert list(zip(example.sources.tolist(), example.targets.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (2, 3),
    ]
