"""Forking requests in a pool of 1.2 times the largest of them: all end, with the same tokens.

They are answered in a pool that is large enough for all, then in the small one, all at once both
times (F32 weights and KV, greedy). No event of any request for 5 s is a failure. Requests that
can never fit are refused at once, by the router and by the worker. One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
from tqdm import tqdm

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.events import AnswerEvent, ErrorEvent, StartEvent, TextEvent, UsageEvent
from multiverse_shared.errors import RequestTooLarge
from multiverse_trainer.tiny.tasks import Family, make_task
from tests.reliability.rig import EXACT, Rig, rig

POOL_FACTOR = 1.2
NO_PROGRESS_S = 5.0
AT_ONCE_S = 2.0  # a refusal takes no longer
MAX_TOKENS = 250  # of an answer; some use it up
LEAST_POOL = 256
LARGE = {"kv_cells": "8192", "sequences": "256", "batch_tokens": "256", "threads": "1"}


@dataclass
class Answer:
    """What one request said, path by path, and how large its tree became."""

    paths: dict[str, list[int]] = field(default_factory=dict)
    tokens: int = 0
    parallelism: float = 1.0
    error: str = ""

    def add(self, event: AnswerEvent) -> None:
        match event:
            case StartEvent():
                self.tokens += event.prompt_tokens
            case TextEvent():
                self.paths.setdefault(event.path, []).extend(event.token_ids)
            case UsageEvent():
                self.tokens += event.completion_tokens
                self.parallelism = event.parallelism
            case ErrorEvent():
                self.error = f"{event.kind}: {event.message}"


@dataclass
class Progress:
    """The longest time in which nothing happened; raises TimeoutError when it is too long."""

    bar: Any
    last: float = field(default_factory=time.monotonic)
    longest: float = 0.0
    running: int = 0

    def seen(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now

    async def watch(self) -> None:
        while self.running:
            await asyncio.sleep(0.2)
            if time.monotonic() - self.last > NO_PROGRESS_S:
                raise TimeoutError(f"no request made progress for {NO_PROGRESS_S:.0f} s")


async def ask(rig: Rig, prompt: str, max_tokens: int, progress: Progress) -> Answer:
    answer = Answer()
    request = rig.request(prompt, max_tokens=max_tokens, temperature=0.0)
    async with rig.answers.answer(request) as events:
        async for event in events:
            progress.seen()
            answer.add(event)
    progress.running -= 1
    progress.bar.update()
    return answer


async def at_once(
    rig: Rig, prompts: list[str], max_tokens: int, progress: Progress
) -> list[Answer]:
    progress.running = len(prompts)
    progress.last = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(progress.watch())
        tasks = [group.create_task(ask(rig, p, max_tokens, progress)) for p in prompts]
    return [task.result() for task in tasks]


async def _refused_meanwhile(rig: Rig) -> None:
    """AssertionError when what can never fit is not refused at once."""
    await asyncio.sleep(0.3)  # under pressure
    pool = rig.answers.model().kv_cells
    try:
        await rig.answers.admit([rig.request("1", max_tokens=pool)])
    except RequestTooLarge as error:
        refused = error
    else:
        raise AssertionError("the router takes a request that can never fit")
    assert refused.field == "max_tokens"
    begun = time.monotonic()
    async with grpc.aio.insecure_channel(rig.address) as channel:
        call = EngineServiceStub(channel).Run()
        context = pb.Context(items=[pb.Item(text=pb.Text(ids=[1] * 10))])
        start = pb.Start(branch=1, request="huge", context=context, max_tokens=pool)
        await call.write(pb.RunRequest(start=start))
        frame = await call.read()
        call.cancel()
    [update] = frame.updates
    assert update.finish.code == "OUT_OF_RANGE", update
    assert str(pool) in update.finish.message
    assert time.monotonic() - begun < AT_ONCE_S, "the refusal had to wait"


async def measure(model: Path, requests: int, seed: int) -> dict[str, Any]:
    rng = Random(seed)
    prompts = [make_task(rng, Family.NESTED).prompt for _ in range(requests)]
    bar = tqdm(total=2 * requests, desc="pressure")
    async with rig(model, **{**LARGE, **EXACT}) as large:
        expected = await at_once(large, prompts, MAX_TOKENS, Progress(bar))
        unpressed = await large.metrics()
    largest = max(answer.tokens for answer in expected)
    pool = max(LEAST_POOL, int(POOL_FACTOR * largest))
    progress = Progress(bar)
    async with rig(model, **{**LARGE, **EXACT, "kv_cells": str(pool)}) as pressed:
        begun = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            group.create_task(_refused_meanwhile(pressed))
            running = group.create_task(at_once(pressed, prompts, MAX_TOKENS, progress))
        answers = running.result()
        seconds = time.perf_counter() - begun
        idle = await pressed.until_idle(NO_PROGRESS_S)
        told = await pressed.metrics()
    bar.close()
    equal = sum(one.paths == other.paths for one, other in zip(answers, expected, strict=True))
    errors = [answer.error for answer in answers if answer.error]
    taken = unpressed["preemptions_total"] + unpressed["revocations_total"]
    assert not taken, "the large pool was too small to be the measure"
    return {
        "requests": requests,
        "pool": pool,
        "largest_tree": largest,
        "pool_ratio": round(pool / largest, 3),
        "forked": sum(answer.parallelism > 1 for answer in expected),
        "equal": equal,
        "errors": errors[:3],
        "longest_gap_s": round(progress.longest, 3),
        "seconds": round(seconds, 2),
        "computed_ratio": round(_computed(told) / _computed(unpressed), 3),
        "preemptions": int(told["preemptions_total"]),
        "revocations": int(told["revocations_total"]),
        "evictions": int(told["evictions_total"]),
        "passed": idle and equal == requests and not errors and progress.longest < NO_PROGRESS_S,
    }


def _computed(told: dict[str, float]) -> float:
    return told["tokens_total/decoded"] + told["tokens_total/prefilled"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = asyncio.run(measure(options.model, options.requests, options.seed))
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
