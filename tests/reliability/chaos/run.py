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

from tests.e2e.answers import FLAT, NESTED
from tests.reliability.chaos.faults import Faults
from tests.reliability.chaos.load import Load, Told, read
from tests.reliability.chaos.parts import Parts, fleet, until

MODEL = Path(__file__).parents[3] / "models" / "multiverse-tiny"
IDLE_S = 75.0  # leases of a lost stream end after 5 s, of a quiet request after 60
SIM = {"ENGINE": "sim", "SIM_SPEED": "1", "SIM_MACHINE": "smollm2-135m-q8_0-2cores"}
LLAMACPP = {  # F32: greedy is exact
    "ENGINE": "llamacpp",
    "KV_TYPE": "f32",
    "FLASH_ATTENTION": "false",
    "THREADS": "1",
}
ROUTER = {"SILENCE_S": "5", "KEEPALIVE_S": "1", "PLACEMENT": "least_load", "SIBLINGS": "spread"}


WORKERS = {"sim": SIM, "llamacpp": LLAMACPP}


def asked_of(engine: str) -> list[dict[str, Any]]:
    """Bodies of requests: made-up trees of a simulator, tasks that the tiny model knows."""
    if engine == "sim":
        prompt = "sim:paths=3,depth=1,path=12-24,text=4-8 question"
        return [{"prompt": prompt, "seed": seed, "max_tokens": 600} for seed in range(20)]
    return [
        {"prompt": FLAT, "max_tokens": 400},
        {"prompt": NESTED, "max_tokens": 400},
        {"prompt": FLAT, "max_tokens": 400, "temperature": 0.7, "seed": 11},
        {"prompt": NESTED, "max_tokens": 400, "temperature": 0.7, "seed": 12},
    ]


async def undisturbed(parts: Parts, asked: list[dict[str, Any]]) -> list[Told]:
    """Answers of a fleet in which all is well."""
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        return [(await read(client, parts.url(0), body)).ids for body in asked]


async def chaos(
    requests: int,
    seconds: float,
    seed: int,
    *,
    model: Path = MODEL,
    engine: str = "sim",
    scale: float = 1.0,
) -> dict[str, Any]:
    """One run. `scale` shortens the times between faults."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with fleet(
            Path(folder), model, worker_settings=WORKERS[engine], router_settings=ROUTER
        ) as parts:
            asked = asked_of(engine)
            expected = await undisturbed(parts, asked)
            urls = [parts.url(index) for index in range(len(parts.routers))]
            load, faults = Load(urls, asked, expected), Faults(parts, Random(seed))
            failing = asyncio.create_task(faults.run(10 * scale, 60 * scale, 90 * scale, 7 * scale))
            try:
                await load.run(requests, requests / seconds)
            finally:
                failing.cancel()
                await asyncio.wait([failing])
            await faults.heal()
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
        "engine": engine,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=sorted(WORKERS), default="sim")
    parser.add_argument("--model", type=Path, default=MODEL)
    given = parser.parse_args()
    result = asyncio.run(
        chaos(
            given.requests,
            given.seconds,
            given.seed,
            model=given.model,
            engine=given.engine,
            scale=given.scale,
        )
    )
    print(json.dumps(result))
    bad = ("lost", "duplicated", "differs", "hung", "left_running", "left_on_workers")
    return int(any(result[name] for name in bad))


if __name__ == "__main__":
    sys.exit(main())
