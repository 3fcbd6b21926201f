"""How many tokens a second a simulator worker can tell over one stream, in a process of its own.

It waits for nothing (speed 0), so this is the most that a test of a router can be fed with. The
worker runs on one core; this process, which only counts, may need a part of another. One JSON
line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc

from multiverse_cli.stack import free_port
from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub

START_S = 60.0
LEAST_TOKENS_PER_S = 50_000


def worker(model: Path, port: int, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    settings = {
        "model": model,
        "port": port,
        "engine": "sim",
        "sim_speed": options.speed,
        "sequences": max(2, options.branches),
        "max_branches": options.branches,
        "kv_cells": options.branches * (options.tokens + 100),
        "log_level": "WARNING",
    }
    named = {f"MULTIVERSE_WORKER_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "multiverse_worker"]
    return subprocess.Popen(command, env=os.environ | named)


async def measure(port: int, options: argparse.Namespace) -> dict[str, Any]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), START_S)
        call = EngineServiceStub(channel).Run()
        begun = time.perf_counter()
        for number in range(options.branches):
            start = pb.Start(
                branch=number,
                request=f"r{number}",
                context=pb.Context(items=[pb.Item(text=pb.Text(ids=[number % 60 + 20] * 20))]),
                max_tokens=options.tokens,
                sampling=pb.Sampling(seed=options.seed + number, stream="0"),
            )
            await call.write(pb.RunRequest(start=start))
        tokens = frames = ended = 0
        while ended < options.branches:
            frame = await call.read()
            frames += 1
            tokens += sum(len(update.ids) for update in frame.updates)
            ended += sum(update.HasField("finish") for update in frame.updates)
        seconds = time.perf_counter() - begun
        call.cancel()
    rate = tokens / seconds
    return {
        "branches": options.branches,
        "tokens": tokens,
        "frames": frames,
        "seconds": round(seconds, 3),
        "tokens_per_s": round(rate),
        "passed": rate >= LEAST_TOKENS_PER_S or options.speed > 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--branches", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=1000, help="of each branch")
    parser.add_argument("--speed", type=float, default=0.0, help="0: without waiting")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    port = free_port()
    process = worker(options.model, port, options)
    try:
        result = asyncio.run(measure(port, options))
    finally:
        process.terminate()
        process.wait()
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
