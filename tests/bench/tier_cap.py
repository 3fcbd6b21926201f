"""Memory of Redis while many blocks go through a tier with a small cap. One JSON line last.

Blocks of all sizes up to 64 KiB, and a phase of small ones, for which what Redis needs for each
weighs most. Status 1 when the memory that was added ever passed the cap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from random import Random

from redis.asyncio import Redis
from tqdm import tqdm

from multiverse_worker.tier.redis_backend import RedisBackend
from tests.redis_server import redis_server

CALLS_AT_ONCE = 16
PHASES = (65_536, 512, 8_192, 65_536)  # largest block of each
LOOKS = 50  # at the memory, in a phase


async def measure(blocks: int, cap_bytes: int, seed: int) -> dict[str, int | float]:
    rng = Random(seed)
    most = 0
    with redis_server() as server:
        async with Redis(port=server.port) as redis:
            backend = RedisBackend(server.url, cap_bytes, 3600.0, 60.0)

            async def used() -> int:
                return int((await redis.info("memory"))["used_memory"])

            async def put(names: range, largest: int) -> None:
                for number in names:
                    raw = rng.randbytes(rng.randint(1, largest))
                    await backend.put(number.to_bytes(32, "little"), raw)

            empty, at = await used(), 0
            step = max(CALLS_AT_ONCE, blocks // (len(PHASES) * LOOKS))
            for largest in PHASES:
                for _ in tqdm(range(LOOKS), desc=f"blocks up to {largest} bytes"):
                    async with asyncio.TaskGroup() as tasks:
                        for part in range(CALLS_AT_ONCE):
                            names = range(at + part, at + step, CALLS_AT_ONCE)
                            tasks.create_task(put(names, largest))
                    at += step
                    most = max(most, await used() - empty)
            left = await redis.dbsize()
            await backend.close()
    return {
        "blocks": at,
        "cap_bytes": cap_bytes,
        "most_bytes": most,
        "most_share": round(most / cap_bytes, 4),
        "blocks_left": left,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--cap-mib", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = asyncio.run(measure(options.blocks, options.cap_mib << 20, options.seed))
    print(json.dumps({"bench": "tier-cap", **found}))
    return int(found["most_bytes"] >= found["cap_bytes"])


if __name__ == "__main__":
    sys.exit(main())
