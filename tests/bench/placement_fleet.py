"""`auto` against eager and serial forks on real processes: workers, a router, mixed traffic.

Requests come at random (Poisson), the same ones for each policy, which take turns for some rounds,
so that what else the machine does falls on all of them: half fork into 4 to 8 paths, half do not
fork. Workers of llama.cpp take as long for a step as another machine (`--machine`, see
`paced_worker`), so that three of them do not slow each other on a few cores; or, with `--machine
own`, as long as this one takes for weights that change nothing (`--units`). With `--engine sim`
requests are those of the fork-heavy mix of `make sim`.

As in `make sim`, requests come for `--warm` seconds, are counted for `--seconds`, and go on to come
until those counted have ended or are late in any case: short bursts on idle workers show no
policy. One is good when its whole answer came within a second and its target for each of its
tokens; refused ones are not. Rates are shares (`--loads`) of what the fleet does with as many
requests at once as it has places, all forks at once. One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np

from multiverse_shared.encode import TextBlock
from multiverse_trainer.tiny.tasks import Family, Level, make_task
from tests.bench.heavy_model import write_heavy
from tests.reliability.chaos.parts import Part
from tests.reliability.rig import free_port

GRACE_S = 1.0
START_S = 120.0
ANSWER_S = 300.0
OWN = "own"
SIM_CELLS = "68036"  # of a worker, as in `make sim`
Rounds = dict[str, list[list["Answered"]]]  # by policy
POLICIES = {"eager": "local", "serial": "local", "auto": "auto"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and when it comes, in seconds from the first."""

    at_s: float
    prompt: str
    forks: bool
    most: int = 700  # tokens


@dataclass(frozen=True, slots=True)
class Answered:
    seconds: float
    tokens: int  # 0: it was refused, failed, or was not there in time
    refused: str = ""  # why, or "late"

    def good(self, token_ms: float) -> bool:
        return self.tokens > 0 and self.seconds <= GRACE_S + self.tokens * token_ms / 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of a policy: requests a second, their target, and which they are."""

    rate: float
    token_ms: float
    seed: int


def traffic(rate: float, seed: int, engine: str) -> Iterator[Asked]:
    """Without an end."""
    rng, now = Random(seed), 0.0
    while True:
        now += rng.expovariate(rate)
        forks = rng.random() < 0.5
        if engine == "sim":
            paths = rng.randint(4, 8)
            shape = f"paths={paths},blocks=2,path=60-180" if forks else "plain,path=80-360"
            yield Asked(now, f"sim:{shape} {rng.random()}", forks, 6000)
        else:
            yield Asked(now, _task(rng, many=forks), forks)


def _task(rng: Random, *, many: bool) -> str:
    """A task of 4 to 8 long chains, or of 2 or 3."""
    while True:
        task = make_task(rng, Family.EVAL, Level.WIDE if many else Level.LONG)
        block = task.tree[0]
        assert isinstance(block, TextBlock)
        if (len(block.paths) >= 4) == many:
            return task.prompt


async def ask(client: httpx.AsyncClient, asked: Asked, policy: str, target: float) -> Answered:
    parallel = ("serial" if policy == "serial" else "auto") if asked.forks else "off"
    body = {"prompt": asked.prompt, "stream": False, "parallel": parallel, "max_tokens": asked.most}
    begun = time.perf_counter()
    answer = await client.post("/v1/generate", json=body | {"token_ms": target})
    seconds, said = time.perf_counter() - begun, answer.json()
    if answer.status_code != 200:
        return Answered(seconds, 0, said["error"]["message"])
    return Answered(seconds, said["usage"]["completion_tokens"])


async def capacity(
    client: httpx.AsyncClient, at_once: int, seconds: float, seed: int, engine: str
) -> float:
    """Answers a second with so many requests at once, all paths of which run.

    Counted for `seconds` after as many of warming up.
    """
    waiting, done = traffic(1.0, seed, engine), 0
    begun = time.perf_counter()

    async def user() -> None:
        nonlocal done
        while True:
            await ask(client, next(waiting), "eager", 60_000.0)
            done += time.perf_counter() > begun + seconds

    with suppress(TimeoutError):
        async with asyncio.timeout(2 * seconds), asyncio.TaskGroup() as users:
            for _ in range(at_once):
                users.create_task(user())
    if not done:
        raise SystemExit(f"no answer ended within {seconds:g} s; give a longer --probe")
    return done / seconds


async def alone_ms(client: httpx.AsyncClient, workers: int) -> float:
    """Milliseconds a token of a request that has a worker for itself; the best of some.

    All workers have one at the time: they may share the machine's cores.
    """
    asked = Asked(0.0, "sum a:7+5-3+8-2+1,b:2+4-1+6-7+9,?", False)
    best = math.inf
    for _ in range(3):
        at_once = (ask(client, asked, "eager", 60_000.0) for _ in range(workers))
        answers = await asyncio.gather(*at_once)
        best = min(best, max(1000 * one.seconds / max(1, one.tokens) for one in answers))
    return best


async def offered(
    client: httpx.AsyncClient, options: argparse.Namespace, plan: Plan, policy: str
) -> list[Answered]:
    """Each at its time, however long others take: the answers to those that are counted."""
    end = options.warm + options.seconds
    counted, others = list[asyncio.Task[Answered]](), list[asyncio.Task[Answered]]()
    begun = time.perf_counter()

    async def one(entry: Asked) -> Answered:
        latest = GRACE_S + entry.most * plan.token_ms / 1000
        try:
            async with asyncio.timeout(latest):
                return await ask(client, entry, policy, plan.token_ms)
        except TimeoutError:
            return Answered(latest, 0, "late")

    async with asyncio.TaskGroup() as running:
        for entry in traffic(plan.rate, plan.seed, options.engine):
            wait_s = max(0.0, begun + entry.at_s - time.perf_counter())
            if entry.at_s < end or not counted:
                await asyncio.sleep(wait_s)
            elif not (await asyncio.wait(counted, timeout=wait_s))[1]:
                break
            task = running.create_task(one(entry))
            (counted if options.warm <= entry.at_s < end else others).append(task)
        for task in others:
            task.cancel()
    return [task.result() for task in counted]


@asynccontextmanager
async def router(
    folder: Path, workers: list[Part], siblings: str
) -> AsyncIterator[httpx.AsyncClient]:
    port = free_port()
    settings = {
        "WORKERS": ",".join(f"127.0.0.1:{worker.port}" for worker in workers),
        "SIBLINGS": siblings,
        "MAX_REQUESTS": "4096",
        "LOG_LEVEL": "WARNING",
    }
    part = Part("router", "multiverse_router", port, settings, folder / "router.log")
    part.start()
    url, limits = f"http://127.0.0.1:{port}", httpx.Limits(max_connections=None)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=ANSWER_S, limits=limits) as client:
            async with asyncio.timeout(START_S):
                while not await _ready(client):  # noqa: ASYNC110 - a process, not an event
                    await asyncio.sleep(0.1)
            yield client
    finally:
        part.stop()


async def _ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ready")).status_code == 200
    except httpx.TransportError:
        return False


def _workers(options: argparse.Namespace, folder: Path) -> list[Part]:
    """Not started yet. What the paced ones need more is in the environment of all."""
    model, module = options.model, ""
    if options.engine == "llamacpp" and options.machine == OWN:
        model = folder / model.name
        write_heavy(options.model, model, options.units)
    elif options.engine == "llamacpp":
        module = "tests.bench.paced_worker"
        os.environ |= {"PACED_MACHINE": options.machine, "PACED_PREFILL": str(options.prefill)}
    common = {"MODEL": str(model), "ENGINE": options.engine, "LOG_LEVEL": "WARNING"}
    common |= {"THREADS": "1"} if options.engine == "llamacpp" else {"KV_CELLS": SIM_CELLS}
    return [
        Part(f"w{n}", "multiverse_worker", free_port(), common, folder / f"w{n}.log", run=module)
        for n in range(options.workers)
    ]


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    workers = _workers(options, folder)
    try:
        for worker in workers:
            worker.start()
        async with router(folder, workers, "local") as client:
            alone = await alone_ms(client, len(workers))
            at_once = options.at_once * len(workers)
            full = options.capacity or await capacity(
                client, at_once, options.probe, 1, options.engine
            )
        target = options.token_ms or options.target * alone
        loads = []
        for load in options.loads:
            found = await in_turn(options, folder, workers, load * full, target)
            loads.append({"load": load, **summary(found, load * full, target)})
    finally:
        for worker in workers:
            worker.stop()
    return {
        "workers": options.workers,
        "engine": options.engine,
        "machine": options.machine,
        "capacity": round(full, 2),
        "alone_ms": round(alone, 2),
        "token_ms": round(target, 2),
        "seed": options.seed,
        "loads": loads,
    }


async def in_turn(
    options: argparse.Namespace, folder: Path, workers: list[Part], rate: float, target: float
) -> Rounds:
    """What each policy answers, by round."""
    found: Rounds = {name: [] for name in POLICIES}
    for number in range(options.rounds):
        plan = Plan(rate, target, options.seed + number)
        for policy in _turns(number):
            async with router(folder, workers, POLICIES[policy]) as client:
                found[policy].append(await offered(client, options, plan, policy))
            print(number, policy, _good(found[policy][-1], target), file=sys.stderr, flush=True)
    return found


def summary(found: Rounds, rate: float, target: float) -> dict[str, Any]:
    every = {name: list(chain(*rounds)) for name, rounds in found.items()}
    requests = len(every["auto"])
    good = {name: _good(all, target) for name, all in every.items()}
    return {
        "requests": requests,
        "answers_per_s": round(rate, 2),
        "good": {name: round(count / requests, 4) for name, count in good.items()},
        "good_by_round": {
            name: [_good(all, target) for all in rounds] for name, rounds in found.items()
        },
        "refused": {name: sum(not one.tokens for one in all) for name, all in every.items()},
        "why": {
            name: Counter(one.refused for one in all if one.refused) for name, all in every.items()
        },
        "latency_s": {name: _spread(all) for name, all in every.items()},
        "goodput_ratio_eager": round(good["auto"] / max(1, good["eager"]), 3),
        "goodput_ratio_serial": round(good["auto"] / max(1, good["serial"]), 3),
    }


def _good(answers: list[Answered], target: float) -> int:
    return sum(one.good(target) for one in answers)


def _turns(number: int) -> list[str]:
    """The policies in the order of a round: each comes first, second and last equally often."""
    names = list(POLICIES)
    first = number % len(names)
    return names[first:] + names[:first]


def _spread(answers: list[Answered]) -> dict[str, float]:
    p50, p99 = np.percentile([one.seconds for one in answers], [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--engine", choices=("llamacpp", "sim"), default="llamacpp")
    parser.add_argument(
        "--machine", default="qwen32b-fp16-4x3090", help="whose step times; own: this one's"
    )
    parser.add_argument("--prefill", type=float, default=2000.0, help="tokens a second there")
    parser.add_argument(
        "--units", type=int, default=4096, help="of each MLP, where it is this machine"
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--at-once", type=int, default=14, help="requests a worker, for the capacity"
    )
    parser.add_argument("--probe", type=float, default=20.0, help="seconds that takes, twice")
    parser.add_argument(
        "--loads", type=float, nargs="+", default=[0.85, 1.0], help="of the capacity"
    )
    parser.add_argument(
        "--capacity", type=float, default=0.0, help="answers a second; 0: what the fleet does"
    )
    parser.add_argument(
        "--token-ms", type=float, default=0.0, help="milliseconds a token in place of a target"
    )
    parser.add_argument("--target", type=float, default=1.85, help="times a token of one alone")
    parser.add_argument("--rounds", type=int, default=2, help="of all policies in turn")
    parser.add_argument("--warm", type=float, default=15.0, help="seconds before any is counted")
    parser.add_argument("--seconds", type=float, default=30.0, help="of those that are")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first round; the next has the next"
    )
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        result = asyncio.run(measure(options, Path(folder)))
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
