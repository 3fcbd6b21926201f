"""How fast decoding ends when clients leave, and whether anything stays held.

In rounds: some clients ask for the same answer at once, streamed, whole or over gRPC, and one of
them watches its stream for the moment: the worker has begun but no token came (`start`), a long
prompt is being read (`prefill`), a path has told something (`path`), a block has just been joined
(`join`). Then all cut their connections, and the worker's own load is watched until it is zero.
The time is that of the whole round, so that of the slowest client. A step of the engine is not
broken off, so `--batch-tokens` bounds the time in a prefill. One JSON line last.
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

MOMENTS = ("start", "prefill", "path", "join")
MOST_MS = 200.0
GIVE_UP_S = 30.0
LONG_PROMPT = 900  # characters, as many tokens for the tiny model
SIMULATED = {"engine": "sim", "sim_speed": "10", "sim_path_tokens": "20-30"}


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


class Client:
    """One request on a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def ask(cls, port: int, body: dict[str, Any]) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        data = json.dumps(body).encode()
        head = (
            "POST /v1/generate HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
            f"content-length: {len(data)}\r\n\r\n"
        )
        client._writer.write(head.encode() + data)
        return client

    async def until(self, moment: str) -> bool:
        """Read the stream until a path has told something, or joined; false when it ended."""
        wanted = b"event: join" if moment == "join" else b'"path": "0.'
        async with asyncio.timeout(GIVE_UP_S):
            while line := await self._reader.readline():
                if wanted in line:
                    return True
                if b"event: finish" in line or b"event: error" in line:
                    return False
        return False

    async def leave(self) -> None:
        self._writer.transport.abort()


class Caller:
    """One call of the gRPC service, on a connection of its own."""

    def __init__(self, target: str, body: dict[str, Any]) -> None:
        self._reading = asyncio.create_task(self._read(target, body))

    async def _read(self, target: str, body: dict[str, Any]) -> None:
        options = {name: body[name] for name in ("temperature", "seed")}
        async with AsyncClient(target) as client, client.stream(body["prompt"], **options) as told:
            async for _ in told:
                pass

    async def leave(self) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])


async def leave_once(
    port: int, target: str, watch: LoadWatch, moment: str, bodies: list[dict[str, Any]]
) -> float | None:
    """Milliseconds from the leave of all to an idle worker; None when the moment never came."""
    clients = [await Client.ask(port, body) for body in bodies if "stream" in body]
    callers = [Caller(target, body) for body in bodies if "stream" not in body]
    if moment in ("start", "prefill"):
        await watch.until(busy=True)
        came = True
    else:
        came = await clients[0].until(moment)
    left = time.perf_counter()
    for client in (*clients, *callers):
        await client.leave()
    await watch.until(busy=False)
    return (time.perf_counter() - left) * 1000 if came else None


def bodies_for(moment: str, count: int, rng: Random, *, simulated: bool) -> list[dict[str, Any]]:
    """Requests that go through their answers side by side; the first one is streamed."""
    prompt = "go" if simulated else make_task(rng, Family.NESTED).prompt
    fill = ["".join(rng.choices("0123456789", k=LONG_PROMPT)) for _ in range(count)]
    seed = rng.getrandbits(32)
    ways = ({"stream": True}, {"stream": False}, {})  # the last one is a call
    return [
        {
            "prompt": f"{prompt} {fill[number]}" if moment == "prefill" else prompt,
            "temperature": 0,
            "seed": seed,
            **ways[number % len(ways)],
        }
        for number in range(count)
    ]


async def measure(
    stack: Stack, leaves: int, at_once: int, rng: Random, *, simulated: bool
) -> dict[str, Any]:
    times: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    target = f"grpc://{stack.grpc_address}"
    async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.worker_port}") as channel:
        watch = LoadWatch(EngineServiceStub(channel))
        watching = asyncio.create_task(watch.run())
        bar, begun, done, missed = tqdm(total=leaves, desc="leaves"), time.perf_counter(), 0, 0
        while done < leaves:
            moment = MOMENTS[(done // at_once + missed) % len(MOMENTS)]
            bodies = bodies_for(moment, at_once, rng, simulated=simulated)
            took = await leave_once(stack.port, target, watch, moment, bodies)
            if took is None:
                missed += 1
                continue
            times[moment] += [took] * at_once
            done += at_once
            bar.update(at_once)
        bar.close()
        seconds = time.perf_counter() - begun
        watching.cancel()
        load = watch.load
    ready = await asyncio.to_thread(httpx.get, f"{stack.url}/ready")
    held = load.running + load.waiting + load.leases + ready.json()["running"]
    worst = max(max(found) for found in times.values() if found)
    return {
        "leaves": done,
        "at_once": at_once,
        "engine": "sim" if simulated else "llamacpp",
        "stop_ms": {moment: spread(found) for moment, found in times.items() if found},
        "stop_ms_max": round(worst, 2),
        "held_after": held,
        "moments_missed": missed,
        "leaves_per_s": round(done / seconds, 1),
        "passed": worst <= MOST_MS and held == 0,
    }


def spread(times: list[float]) -> dict[str, float]:
    p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
    return {
        "p50": round(statistics.median(times), 2),
        "p99": round(p99, 2),
        "max": round(max(times), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--engine", choices=("llamacpp", "sim"), default="llamacpp")
    parser.add_argument("--leaves", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4, help="clients of a round")
    parser.add_argument("--batch-tokens", type=int, default=128, help="of a step of the worker")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    simulated = options.engine == "sim"
    settings = {"batch_tokens": str(options.batch_tokens)} | (SIMULATED if simulated else {})
    with Stack(options.model, worker_settings=settings) as stack:
        result = asyncio.run(
            measure(
                stack,
                options.leaves,
                options.at_once,
                Random(options.seed),
                simulated=simulated,
            )
        )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
