"""A long prompt, forked into many paths and joined: seconds and peak memory of the worker.

A small random model with a context of 16k. The answer is asked for as a router asks, over gRPC;
then its whole tree is computed from scratch by another worker, which must go on with the same
tokens (F32, greedy). One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from tests.integration.worker.stream import Stream, text
from tests.reliability.rig import EXACT, START_S, peak_memory_mib, worker
from tests.unit.worker.llamas import DEFAULTS, save_llama

CONTEXT = 16384
SETTINGS = {"kv_cells": str(CONTEXT), "sequences": "32", "batch_tokens": "512", "threads": "1"}
PLAN, CONCLUSION = 8, 16  # tokens
PATIENCE_S = 600.0


@asynccontextmanager
async def connected(model: Path) -> AsyncIterator[tuple[int, Stream]]:
    """A fresh worker: its process id, and a stream to it."""
    with worker(model, {**SETTINGS, **EXACT}) as (process, port, _):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = EngineServiceStub(channel)
            await stub.GetModelInfo(pb.GetModelInfoRequest(), wait_for_ready=True, timeout=START_S)
            stream = Stream(stub, PATIENCE_S)
            yield process, stream
            stream.call.cancel()


async def measure(model: Path, prompt_tokens: int, paths: int, path_tokens: int) -> dict[str, Any]:
    rng = Random(0)
    prompt = [rng.randrange(DEFAULTS["vocab_size"]) for _ in range(prompt_tokens)]
    begun = time.perf_counter()
    async with connected(model) as (process, stream):
        start_mib = peak_memory_mib(process)
        seconds, block, joined = await _answer(stream, prompt, paths, path_tokens)
        peak_mib = peak_memory_mib(process)
        said = stream.ids[joined]
        end = stream.finishes[joined]
        plan = stream.ids[0]
    async with connected(model) as (_, stream):
        await stream.start(1, text(*prompt, *plan), block, text(1), max_tokens=CONCLUSION)
        [scratch] = await stream.ended(1)
        same = stream.ids[1] == said
    before_header = prompt_tokens + PLAN + paths * (path_tokens + 2)
    return {
        "prompt_tokens": prompt_tokens,
        "paths": paths,
        "path_tokens": path_tokens,
        **{name: round(value, 3) for name, value in seconds.items()},
        "join_reused_tokens": end.reused_tokens,
        "join_context_tokens": end.context_tokens,
        "memory_at_start_mib": round(start_mib, 1),
        "peak_memory_mib": round(peak_mib, 1),
        "seconds": round(time.perf_counter() - begun, 1),
        "same_from_scratch": same,
        "passed": same and end.reused_tokens == before_header and scratch.reused_tokens == 0,
    }


async def _answer(
    stream: Stream, prompt: list[int], paths: int, path_tokens: int
) -> tuple[dict[str, float], pb.Item, int]:
    """Plan, paths, conclusion: seconds of each part, the closed block, the last branch."""
    times = [time.perf_counter()]
    await stream.start(0, text(*prompt), request="long", max_tokens=PLAN)
    [plan] = await stream.ended(0)
    times.append(time.perf_counter())
    numbers = range(1, paths + 1)
    for number in numbers:
        fields = {"base_key": plan.key, "block": 0, "request": "long", "length_tail": [3]}
        await stream.start(number, text(2, 3 + number), max_tokens=path_tokens - 1, **fields)
    await stream.until(lambda: all(stream.ids.get(number) for number in numbers))
    times.append(time.perf_counter())
    ends = await stream.ended(*numbers)
    times.append(time.perf_counter())
    contexts = [
        pb.Context(items=[text(2, 3 + number, *stream.ids[number], 3)]) for number in numbers
    ]
    block = pb.Item(block=pb.Block(paths=contexts, rule=pb.JOIN_RULE_STITCH))
    last = paths + 1
    leases = [plan.lease, *(end.lease for end in ends)]
    fields = {"base_key": plan.key, "request": "long", "consumes": leases}
    await stream.start(last, block, text(1), max_tokens=CONCLUSION, **fields)
    await stream.until(lambda: bool(stream.ids.get(last)))
    times.append(time.perf_counter())
    await stream.ended(last)
    times.append(time.perf_counter())
    names = ("prompt_s", "fork_s", "paths_s", "join_s", "conclusion_s")
    spans = [after - before for before, after in pairwise(times)]
    return dict(zip(names, spans, strict=True)), block, last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt-tokens", type=int, default=8192)
    parser.add_argument("--paths", type=int, default=8)
    parser.add_argument("--path-tokens", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = save_llama(Path(folder) / "long", max_position_embeddings=CONTEXT)
        result = asyncio.run(
            measure(model.path, options.prompt_tokens, options.paths, options.path_tokens)
        )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
