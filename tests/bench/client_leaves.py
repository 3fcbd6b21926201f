"""How fast decoding ends when clients leave, and whether anything stays held.

Clients leave at random moments: before the first event, in the plan, with paths running, at
the join, streamed or not, over HTTP or gRPC. After each, the worker's own load is watched until
it is zero. One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import grpc
import httpx
from tqdm import tqdm

from multiverse_cli.stack import Stack
from multiverse_client import AsyncClient
from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_trainer.tiny.tasks import Family, make_task

MOST_MS = 200.0
GIVE_UP_S = 10.0


class LoadWatch:
    """The latest load report of a worker."""

    def __init__(self, stub: EngineServiceStub) -> None:
        self._stub = stub
        self._news = asyncio.Event()
        self.load = pb.WatchLoadResponse()

    async def run(self) -> None:
        async for load in self._stub.WatchLoad(pb.WatchLoadRequest()):
            self.load = load
            self._news.set()

    async def until(self, busy: bool) -> None:
        """Wait until branches or leases are there (or are not)."""
        async with asyncio.timeout(GIVE_UP_S):
            while bool(self.load.running + self.load.waiting + self.load.leases) != busy:
                self._news.clear()
                await self._news.wait()


async def leave_stream(client: httpx.AsyncClient, body: dict[str, Any], events: int) -> bool:
    """Read `events` events and go; false when the answer was over before that."""
    async with client.stream("POST", "/v1/generate", json=body) as response:
        seen = 0
        async for line in response.aiter_lines():
            seen += line.startswith("data: ")
            if seen > events:
                return True
    return False


async def leave_call(target: str, prompt: str, events: int) -> bool:
    """The same over gRPC."""
    async with AsyncClient(target) as client, client.stream(prompt, temperature=0) as stream:
        seen = 0
        async for _ in stream:
            seen += 1
            if seen > events:
                return True
    return False


async def leave_unstreamed(
    client: httpx.AsyncClient, body: dict[str, Any], watch: LoadWatch
) -> bool:
    """Ask for the whole answer, and go as soon as the worker has begun it."""
    request = asyncio.create_task(client.post("/v1/generate", json={**body, "stream": False}))
    await watch.until(busy=True)
    left = not request.done()
    request.cancel()
    await asyncio.wait([request])
    return left


async def measure(
    url: str, grpc_target: str, worker: str, leaves: int, rng: Random
) -> dict[str, Any]:
    times: list[float] = []
    async with grpc.aio.insecure_channel(worker) as channel:
        watch = LoadWatch(EngineServiceStub(channel))
        watching = asyncio.create_task(watch.run())
        bar = tqdm(total=leaves, desc="leaves")
        while len(times) < leaves:
            task = make_task(rng, Family.NESTED)
            body = {"prompt": task.prompt, "temperature": 0}
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                way, events = rng.random(), rng.randint(0, 150)
                if way < 0.3:
                    left = await leave_unstreamed(client, body, watch)
                elif way < 0.6:
                    left = await leave_call(grpc_target, task.prompt, events)
                else:
                    left = await leave_stream(client, body, events)
            begun = time.perf_counter()
            await watch.until(busy=False)
            if left:
                times.append((time.perf_counter() - begun) * 1000)
                bar.update()
        bar.close()
        watching.cancel()
        running = (await asyncio.to_thread(httpx.get, f"{url}/ready")).json()["running"]
        load = watch.load
    p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
    held = load.running + load.waiting + load.leases + running
    return {
        "leaves": leaves,
        "stop_ms_p50": round(statistics.median(times), 2),
        "stop_ms_p99": round(p99, 2),
        "stop_ms_max": round(max(times), 2),
        "held_after": held,
        "passed": max(times) <= MOST_MS and held == 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--leaves", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with Stack(options.model) as stack:
        worker = f"127.0.0.1:{stack.worker_port}"
        target = f"grpc://{stack.grpc_address}"
        rng = Random(options.seed)
        result = asyncio.run(measure(stack.url, target, worker, options.leaves, rng))
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
