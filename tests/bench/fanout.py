"""Long paths on two workers of one thread each, joined on the first: against one worker alone.

The paths are scripted, so both do the same work. Wall clock from the fork to the first token
behind the join, bytes and seconds of what travelled, and the shortest remote path that is fetched
faster than it is computed again. The bound of two workers is step(k) / step(k / 2) of one, which
is measured in the same run; the aim is to come within 10% of it at 16 paths. One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from tests.e2e.tier.replicas import Replicas, replicas
from tests.integration.worker.stream import Stream, text
from tests.redis_server import redis_server

PATIENCE_S = 600.0
PLAN, HEADER = 64, 4


@dataclass
class Bench:
    """Streams to two workers; the first is home."""

    workers: Replicas
    streams: Sequence[Stream]
    vocab: int
    rng: Random
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def ids(self, number: int) -> list[int]:
        return [self.rng.randrange(1, self.vocab) for _ in range(number)]

    async def _run(self, stream: Stream, *items: pb.Item, **fields: Any) -> pb.Finish:
        branch = next(self._numbers)
        await stream.start(branch, *items, **fields)
        [finish] = await stream.ended(branch)
        assert finish.lease, finish
        return finish

    async def fan_out(self, paths: int, length: int, *, both: bool) -> dict[str, float]:
        """Fork, decode all paths, join; of a context that nobody has."""
        home, away = self.streams
        prefix = self.ids(PLAN)
        plan = await self._run(home, text(*prefix), request="fan-out")
        before = await self.workers.counted()
        scripts = [self.ids(length) for _ in range(paths)]
        began = time.perf_counter()
        begun: list[tuple[Stream, int]] = []
        for number, script in enumerate(scripts):
            branch = next(self._numbers)
            fields: dict[str, Any] = {"max_tokens": length - 1, "script": script[1:]}
            if both and number % 2:
                begun.append((away, branch))
                await away.start(
                    branch,
                    text(*prefix, script[0]),
                    request="fan-out",
                    ship_from=PLAN,
                    **fields,
                )
            else:
                begun.append((home, branch))
                await home.start(
                    branch, text(script[0]), request="fan-out", base_key=plan.key, **fields
                )
        async with asyncio.TaskGroup() as tasks:
            for stream in self.streams:
                own = [branch for other, branch in begun if other is stream]
                tasks.create_task(stream.ended(*own))
        decoded = time.perf_counter()
        leases = [s.finishes[b].lease for s, b in begun if s is home]
        block = pb.Block(
            paths=[pb.Context(items=[text(*script)]) for script in scripts],
            rule=pb.JOIN_RULE_STITCH,
        )
        join = await self._run(
            home,
            text(*prefix),
            pb.Item(block=block),
            text(*self.ids(HEADER)),
            request="fan-out",
            max_tokens=1,
            consumes=[plan.lease, *leases],
        )
        ended = time.perf_counter()
        for stream, branch in begun:
            if stream is away:
                await away.release(stream.finishes[branch].lease)
        await home.release(join.lease)
        counted = await self.workers.counted()
        counted.subtract(before)
        return {
            "wall_s": ended - began,
            "join_s": ended - decoded,
            "bytes": counted["tier_bytes/fetched"],
            "fetch_s": counted["tier_fetch_seconds"],
            "recomputed_tokens": sum(
                value for name, value in counted.items() if "recomputed_tokens" in name
            ),
        }

    async def join_s(self, length: int, *, shipped: bool) -> float:
        """Seconds that a join with one remote path takes at home: fetched, or computed."""
        home, away = self.streams
        prefix, path = self.ids(PLAN), self.ids(length)
        if shipped:
            done = await self._run(
                away, text(*prefix, *path), request="one", ship_from=PLAN, max_tokens=0
            )
            await away.release(done.lease)
        plan = await self._run(home, text(*prefix), request="one")
        block = pb.Block(paths=[pb.Context(items=[text(*path)])], rule=pb.JOIN_RULE_STITCH)
        began = time.perf_counter()
        items = (text(*prefix), pb.Item(block=block), text(*self.ids(HEADER)))
        join = await self._run(home, *items, request="one", max_tokens=1, consumes=[plan.lease])
        seconds = time.perf_counter() - began
        await home.release(join.lease)
        return seconds


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    settings = {
        "tier_fetch": "always",
        "tier_prefixes": "never",
        "tier_timeout_s": "30",
        "tier_in_flight_mib": "512",
        "kv_type": options.kv_type,
        "flash_attention": str(options.kv_type == "f16").lower(),
        "weight_type": options.weight_type,
        "kv_cells": str(options.kv_cells),
    }
    with redis_server() as redis:
        async with (
            replicas(options.model, 2, tier_url=redis.url, **settings) as workers,
            AsyncExitStack() as channels,
        ):
            streams = []
            vocab = 0
            for address in workers.metrics_urls:
                channel = grpc.aio.insecure_channel(address)
                stub = EngineServiceStub(await channels.enter_async_context(channel))
                vocab = (await stub.GetModelInfo(pb.GetModelInfoRequest())).vocab_size
                streams.append(Stream(stub, PATIENCE_S))
            bench = Bench(workers, streams, vocab, Random(options.seed))
            out: dict[str, Any] = {}
            for paths in options.paths:
                out[str(paths)] = await _both(bench, paths, options)
            even = await _break_even(bench, options)
            for stream in streams:
                stream.call.cancel()
    return {"paths": out, "break_even": even}


async def _both(bench: Bench, paths: int, options: argparse.Namespace) -> dict[str, float]:
    """One worker and two in turn, so that both see the same machine."""
    await bench.fan_out(min(paths, 2), 64, both=True)  # warm
    alone: list[dict[str, float]] = []
    two: list[dict[str, float]] = []
    half: list[dict[str, float]] = []
    for _ in range(options.repeats):
        alone.append(await bench.fan_out(paths, options.length, both=False))
        two.append(await bench.fan_out(paths, options.length, both=True))
        half.append(await bench.fan_out(paths // 2, options.length, both=False))

    def middle(runs: list[dict[str, float]], name: str) -> float:
        return statistics.median(run[name] for run in runs)

    speedup = middle(alone, "wall_s") / middle(two, "wall_s")
    bound = middle(alone, "wall_s") / middle(half, "wall_s")
    return {
        "one_worker_s": round(middle(alone, "wall_s"), 4),
        "two_workers_s": round(middle(two, "wall_s"), 4),
        "half_the_paths_s": round(middle(half, "wall_s"), 4),
        "speedup": round(speedup, 3),
        "bound": round(bound, 3),
        "share_of_bound": round(speedup / bound, 3),
        "join_s": round(middle(two, "join_s"), 4),
        "fetched_bytes": int(middle(two, "bytes")),
        "fetch_s": round(middle(two, "fetch_s"), 4),
        "recomputed_tokens": int(max(run["recomputed_tokens"] for run in two)),
    }


async def _break_even(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """The shortest of some lengths from which on fetching takes less time than computing."""
    lengths = [16 << power for power in range(7) if 16 << power <= options.length]
    fetched: dict[int, float] = {}
    computed: dict[int, float] = {}
    for length in lengths:
        pairs = [
            (await bench.join_s(length, shipped=True), await bench.join_s(length, shipped=False))
            for _ in range(options.repeats)
        ]
        fetched[length] = statistics.median(pair[0] for pair in pairs)
        computed[length] = statistics.median(pair[1] for pair in pairs)
    slower = [length for length in lengths if fetched[length] >= computed[length]]
    above = [length for length in lengths if length > max(slower, default=0)]
    return {
        "tokens": min(above, default=None),
        "fetch_ms": {str(n): round(1e3 * s, 2) for n, s in fetched.items()},
        "compute_ms": {str(n): round(1e3 * s, 2) for n, s in computed.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--paths", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--length", type=int, default=512, help="tokens of a path")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kv-cells", type=int, default=32768)
    parser.add_argument("--kv-type", choices=["f32", "f16"], default="f16")
    parser.add_argument("--weight-type", choices=["f32", "f16", "q8_0", "q4_0"], default="q8_0")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    line = {
        "bench": "fanout",
        "model": options.model.name,
        "length": options.length,
        **asyncio.run(measure(options)),
    }
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
