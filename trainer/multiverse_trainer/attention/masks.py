"""Masks from span tables: a dense boolean one for the CPU, a FlexAttention block mask for GPUs.

Shape suffixes: b rows, d spans, s query tokens, t key tokens, i query blocks, j key blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128  # tokens of a side of a block
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def dense_mask(first_bds: Tensor, last_bds: Tensor) -> Tensor:
    """[b, 1, s, t] booleans: token s sees token t."""
    keys_t = torch.arange(first_bds.shape[-1], device=first_bds.device)
    seen_bst = torch.zeros(
        (first_bds.shape[0], len(keys_t), len(keys_t)), dtype=torch.bool, device=first_bds.device
    )
    for first_bs, last_bs in zip(first_bds.unbind(1), last_bds.unbind(1), strict=True):
        seen_bst |= (keys_t >= first_bs[..., None]) & (keys_t < last_bs[..., None])
    seen_bst &= keys_t[:, None] >= keys_t
    return seen_bst[:, None]


def mask_mod(first_bds: Tensor, last_bds: Tensor) -> MaskMod:
    """The same as a function of indices, for the blocks that are seen in part."""
    depth = first_bds.shape[1]

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = (k >= first_bds[b, 0, q]) & (k < last_bds[b, 0, q])
        for d in range(1, depth):
            seen = seen | ((k >= first_bds[b, d, q]) & (k < last_bds[b, d, q]))
        return seen & (k <= q)

    return sees


def block_mask(first_bds: Tensor, last_bds: Tensor) -> BlockMask:
    """The grid of blocks that are seen wholly, in part or not at all, and `mask_mod`.

    Beside the (s / 128)^2 grid time and memory are linear in s. ValueError unless s is a
    multiple of 128.
    """
    size = first_bds.shape[-1]
    if size % BLOCK:
        raise ValueError(f"rows of {size} tokens; a block mask needs a multiple of {BLOCK}")
    pairs_bij = _pairs(first_bds, last_bds)
    full_bij = pairs_bij == BLOCK * BLOCK
    part_bij = (pairs_bij > 0) & ~full_bij
    part_count, part_index = _listed(part_bij)
    full_count, full_index = _listed(full_bij)
    return BlockMask.from_kv_blocks(
        part_count,
        part_index,
        full_count,
        full_index,
        BLOCK_SIZE=BLOCK,
        mask_mod=mask_mod(first_bds, last_bds),
        seq_lengths=(size, size),
    )


def _listed(chosen_bij: Tensor) -> tuple[Tensor, Tensor]:
    """How many key blocks each query block has, and their indices, the chosen ones first."""
    order = torch.argsort(chosen_bij.to(torch.int8), dim=-1, descending=True, stable=True)
    return chosen_bij.sum(-1, dtype=torch.int32)[:, None], order.to(torch.int32)[:, None]


def _pairs(first_bds: Tensor, last_bds: Tensor) -> Tensor:
    """[b, i, j]: how many pairs of a query in block i and a key in block j see each other.

    A span adds a part of a block at either end and whole blocks between them, which are summed
    up from where they begin and end: O(s) time and memory beside the grid.
    """
    rows, _, size = first_bds.shape
    blocks = size // BLOCK
    query_s = torch.arange(size, device=first_bds.device, dtype=first_bds.dtype)
    first = first_bds
    last = torch.minimum(last_bds, query_s + 1)  # causal
    row_b = torch.arange(rows, device=first.device)[:, None, None]
    line = ((row_b * blocks + query_s // BLOCK) * blocks).expand_as(first)
    seen = last > first
    j0 = first // BLOCK
    j1 = torch.where(seen, (last - 1) // BLOCK, j0)
    several = j1 > j0
    head = torch.where(seen, torch.minimum(last, (j0 + 1) * BLOCK) - first, 0)
    tail = torch.where(several, last - j1 * BLOCK, 0)
    whole = torch.where(several, BLOCK, 0)
    next_j = torch.where(several, j0 + 1, j0)
    ends = torch.zeros(rows * blocks * blocks, dtype=torch.int32, device=first.device)
    steps = torch.zeros_like(ends)
    for target, j, amount in (
        (ends, j0, head),
        (ends, j1, tail),
        (steps, next_j, whole),
        (steps, j1, -whole),
    ):
        target.index_add_(0, (line + j).flatten(), amount.flatten().to(torch.int32))
    grid = (rows, blocks, blocks)
    return ends.view(grid) + steps.view(grid).cumsum(-1, dtype=torch.int32)
