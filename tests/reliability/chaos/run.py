"""Steady load while parts of the fleet die: nothing lost, nothing twice, nothing that hangs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.reliability.chaos.faults import Faults
from tests.reliability.chaos.load import Load, Told, read
from tests.reliability.chaos.parts import Parts, fleet, until

MODEL = Path(__file__).parents[3] / "models" / "multiverse-tiny"
ANSWERS = 20  # different ones
IDLE_S = 75.0  # leases of a lost stream end after 5 s, of a quiet request after 60
WORKER = {"SIM_SPEED": "1", "SIM_MACHINE": "smollm2-135m-q8_0-2cores"}
ROUTER = {"SILENCE_S": "5", "KEEPALIVE_S": "1", "PLACEMENT": "least_load", "SIBLINGS": "spread"}


async def undisturbed(parts: Parts) -> dict[int, Told]:
    """Answers of a fleet in which all is well, by seed."""
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        return {seed: (await read(client, parts.url(0), seed)).ids for seed in range(ANSWERS)}


async def chaos(
    requests: int, seconds: float, seed: int, *, model: Path = MODEL, scale: float = 1.0
) -> dict[str, Any]:
    """One run. `scale` shortens the times between faults."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with fleet(
            Path(folder), model, worker_settings=WORKER, router_settings=ROUTER
        ) as parts:
            expected = await undisturbed(parts)
            urls = [parts.url(index) for index in range(len(parts.routers))]
            load, faults = Load(urls, expected), Faults(parts, Random(seed))
            failing = asyncio.create_task(faults.run(10 * scale, 60 * scale, 90 * scale, 7 * scale))
            try:
                await load.run(requests, requests / seconds)
            finally:
                failing.cancel()
                await asyncio.wait([failing])
            for part in (*parts.workers, *parts.routers):
                if part.ended:
                    part.start()
            for proxy in parts.proxies:
                proxy.delay_s = 0.0
                proxy.go()
            if parts.redis.process.poll() is not None:
                parts.restart_redis()
            await parts.ready(len(parts.workers))
            left = {"running": 1, "load": 1}

            async def idle() -> bool:
                left.update(running=await parts.running(), load=await parts.load())
                return not any(left.values())

            try:
                await until(idle, "counters at zero", IDLE_S)
            except AssertionError:
                load.outcomes.faults.append(f"left: {left}")
    counts = load.outcomes.counts
    named = ("lost", "duplicated", "differs", "hung", "error_events", "finished", "requests")
    return {
        **{name: counts.pop(name, 0) for name in named},
        **dict(sorted(counts.items())),
        "left_running": left["running"],
        "left_on_workers": left["load"],
        "kinds_of_fault": dict(sorted(faults.kinds.items())),
        "wrong": load.outcomes.faults[:20],
        "seconds": round(time.monotonic() - begun, 1),
        "seed": seed,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", type=Path, default=MODEL)
    given = parser.parse_args()
    result = asyncio.run(
        chaos(given.requests, given.seconds, given.seed, model=given.model, scale=given.scale)
    )
    print(json.dumps(result))
    bad = ("lost", "duplicated", "differs", "hung", "left_running", "left_on_workers")
    return int(any(result[name] for name in bad))


if __name__ == "__main__":
    sys.exit(main())
