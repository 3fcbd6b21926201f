"""What KV costs on its way between an SGLang pool and the tier, and what pages of one token cost.

No engine runs: pools and allocators are SGLang's own classes, filled at random, on one device.
Prints one JSON line.

- `read`, `write`: our blocks of 64 tokens out of the pool and into it, by slot, with the bytes
  made; slots in a row, and slots scattered over the pool. Median over all blocks.
- `put`, `get`: the same blocks through the tier's client and a Redis of this machine; all the time
  until the last one is kept, or has come, over its tokens.
- `page`: the same tokens as pages of 64 that lie in a row, copied as slices: what a larger page
  would allow. `alloc`: taking and giving back slots for 64 tokens, at page size 1 and 64.
- `objects`: one object for each token (what a page-wise store keeps at page size 1) put and
  fetched through the same client, against objects of 64.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from multiverse_worker.engines.sglang.pool import PoolSlots
from multiverse_worker.tier.counts import Cause
from multiverse_worker.tier.launch import launch_tier
from multiverse_worker.tier.settings import TierSettings
from multiverse_worker.tier.tier import Tier
from tests.redis_server import redis_server

BLOCK = 64
WAIT_S = 30.0


def allocator_of(options: argparse.Namespace, page: int) -> Any:
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    dtype = getattr(torch, options.dtype)
    pool = MHATokenToKVPool(
        options.cells,
        page,
        dtype,
        options.heads,
        options.width,
        options.layers,
        options.device,
        enable_memory_saver=False,
    )
    for buffer in (*pool.k_buffer, *pool.v_buffer):
        buffer.normal_()
    if page == 1:
        return TokenToKVPoolAllocator(options.cells, dtype, options.device, pool, need_sort=False)
    return PagedTokenToKVPoolAllocator(
        options.cells, page, dtype, options.device, pool, need_sort=False
    )


def median_us(work: Callable[[int], object], times: int) -> float:
    """Microseconds of one call."""
    took = []
    for number in range(times):
        begun = time.perf_counter()
        work(number)
        took.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(took)


def copies(slots: PoolSlots, rows: Sequence[torch.Tensor]) -> dict[str, float]:
    raw = [slots.read(row) for row in rows]
    read = median_us(lambda number: slots.read(rows[number]), len(rows))
    write = median_us(lambda number: slots.write(raw[number], BLOCK, rows[number]), len(rows))
    return {"read": round(read / BLOCK, 3), "write": round(write / BLOCK, 3)}


def pages(pool: Any, rows: Sequence[torch.Tensor]) -> float:
    """Pages in a row, as slices."""

    def read(number: int) -> bytes:
        first = int(rows[number][0])
        parts = [
            buffer[first : first + BLOCK].to("cpu").view(torch.uint8).numpy().tobytes()
            for layer in zip(pool.k_buffer, pool.v_buffer, strict=True)
            for buffer in layer
        ]
        return b"".join(parts)

    return round(median_us(read, len(rows)) / BLOCK, 3)


def take_and_give(allocator: Any) -> float:
    return round(median_us(lambda _: allocator.free(allocator.alloc(BLOCK)), 200), 2)


def carry(tier: Tier, blocks: dict[bytes, bytes]) -> dict[str, float]:
    """Seconds for all of `blocks` on their way out, and on their way in."""
    begun = time.perf_counter()
    puts = []
    for name, raw in blocks.items():
        while not tier.has_room(len(raw)):
            tier.wait(WAIT_S)
        puts.append(tier.put(name, raw))
    while not all(put.done for put in puts):
        tier.wait(WAIT_S)
    put_s = time.perf_counter() - begun
    begun = time.perf_counter()
    fetch, left = tier.fetch(list(blocks)), set(blocks)
    while left:
        tier.wait(WAIT_S)
        for name in [name for name in left if fetch.arrived(name)]:
            answer = fetch.take(name)
            assert not isinstance(answer, Cause), answer
            left.discard(name)
    return {"put": put_s, "get": time.perf_counter() - begun}


def per_token(seconds: dict[str, float], tokens: int) -> dict[str, float]:
    return {name: round(value / tokens * 1e6, 3) for name, value in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, default=28, help="Qwen2.5-1.5B, as are the others")
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=2048, help="carried, in blocks of 64")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    allocator = allocator_of(options, 1)
    slots = PoolSlots(SimpleNamespace(token_to_kv_pool_allocator=allocator))
    slots.check()
    taken = torch.arange(1, options.tokens + 1, device=options.device)
    scattered = torch.randperm(options.cells, device=options.device)[: options.tokens] + 1
    rows = {"in_a_row": taken.split(BLOCK), "scattered": scattered.split(BLOCK)}
    line: dict[str, Any] = {
        "bench": "sglang-tier",
        "device": options.device,
        "pool": f"{options.layers} layers, {options.heads} heads of {options.width}, "
        + options.dtype,
        "bytes_per_token": slots.token_bytes,
        "us_per_token": {name: copies(slots, chosen) for name, chosen in rows.items()},
    }
    line["us_per_token"]["page_64_read"] = pages(allocator.get_kvcache(), rows["in_a_row"])
    line["alloc_us_per_64_tokens"] = {
        "page_1": take_and_give(allocator),
        f"page_{BLOCK}": take_and_give(allocator_of(options, BLOCK)),
    }
    raw = [slots.read(row) for row in rows["scattered"]]
    blocks = {number.to_bytes(32, "little"): block for number, block in enumerate(raw)}
    size, all_of_it = slots.token_bytes, b"".join(raw)
    tokens = {
        (len(blocks) + number).to_bytes(32, "big"): all_of_it[number * size : (number + 1) * size]
        for number in range(options.tokens)
    }
    with redis_server() as redis:
        tier = launch_tier(
            TierSettings(tier_url=redis.url, tier_timeout_s=WAIT_S, tier_cap_mib=1024)
        )
        assert tier
        carry(tier, dict(list(blocks.items())[:4]))  # connections are made
        line["us_per_token"]["through_redis"] = {
            "objects_of_64": per_token(carry(tier, blocks), options.tokens),
            "objects_of_1": per_token(carry(tier, tokens), options.tokens),
        }
        tier.close()
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
