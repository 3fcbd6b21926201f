"""KV out of SGLang's pool and into it, as bytes: over a pool that copies as SGLang's does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sglang.pool import PoolSlots, check_tier

LAYERS, CELLS = 3, 40


class Allocator:
    """K and V differ in width, and in type from what a checkpoint computes in."""

    def __init__(self) -> None:
        shape = (LAYERS, CELLS, 2)
        self.k = torch.randn(*shape, 8).to(torch.bfloat16)
        self.v = torch.randn(*shape, 4).to(torch.bfloat16)

    def get_cpu_copy(self, slots: torch.Tensor) -> list[Any]:
        return [[[self.k[layer][slots], self.v[layer][slots]]] for layer in range(LAYERS)]

    def load_cpu_copy(self, copies: list[Any], slots: torch.Tensor) -> None:
        for layer in range(LAYERS):
            ((k, v),) = copies[layer]
            assert k.shape[0] == v.shape[0] == len(slots)
            self.k[layer][slots], self.v[layer][slots] = k, v


class Cache:
    def __init__(self, allocator: object) -> None:
        self.token_to_kv_pool_allocator = allocator


def pool_of(allocator: object) -> PoolSlots:
    slots = PoolSlots(Cache(allocator))
    slots.check()
    return slots


@pytest.mark.parametrize("held", [0, 3])
def test_what_was_read_is_written_elsewhere_bit_by_bit(held: int) -> None:
    there, here = Allocator(), Allocator()
    sent, taken = torch.tensor([7, 3, 30, 31, 9]), torch.tensor([1, 0, 39, 20, 21])[held:]
    raw = pool_of(there).read(sent)
    before = here.k.clone()
    slots = pool_of(here)
    assert len(raw) == len(sent) * slots.token_bytes == 5 * LAYERS * 2 * 12 * 2
    assert slots.write(raw, len(sent), taken)
    assert torch.equal(here.k[:, taken], there.k[:, sent[held:]])
    assert torch.equal(here.v[:, taken], there.v[:, sent[held:]])
    others = torch.tensor([slot for slot in range(CELLS) if slot not in taken.tolist()])
    assert torch.equal(here.k[:, others], before[:, others])


@pytest.mark.parametrize("size", [-1, 1, 0])
def test_what_is_no_kv_of_so_many_tokens_is_not_written(size: int) -> None:
    allocator = Allocator()
    slots, before = pool_of(allocator), allocator.k.clone()
    raw = slots.read(torch.tensor([1, 2]))
    wrong = raw + b"x" if size > 0 else raw[:size]
    assert not slots.write(wrong, 2, torch.tensor([3, 4]))
    assert torch.equal(allocator.k, before)


class Latent(Allocator):
    def get_cpu_copy(self, slots: torch.Tensor) -> list[Any]:
        return [[self.k[layer][slots]] for layer in range(LAYERS)]


class Sealed(Allocator):
    def get_cpu_copy(self, slots: torch.Tensor) -> list[Any]:
        raise NotImplementedError("no copies")


@pytest.mark.parametrize("allocator", [Latent, Sealed])
def test_a_pool_that_is_laid_out_otherwise_is_refused_with_the_remedy(
    allocator: type[Allocator],
) -> None:
    with pytest.raises(InvalidRequest, match="leave tier_url out"):
        pool_of(allocator())


def test_several_ranks_are_refused_with_the_remedy() -> None:
    check_tier(1)
    with pytest.raises(InvalidRequest, match="tier_url needs tensor_parallel 1"):
        check_tier(2)
