"""Processor time of one decision of a router, by the number of its workers.

Each worker has a dozen requests and has measured its steps; nothing is sent. Timed is what the
event loop does for a request or a fork, from the pool's list of workers to the index of prefixes;
the keys of a prompt are timed apart. Prints one JSON line, microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.link import new_branch
from multiverse_router.fleet.session import Session
from multiverse_router.placement.view import Progress
from multiverse_shared.tree import Text
from tests.unit.router.hand_fed import HandFedLink, fleet_of
from tests.unit.router.served import served_model

STEPS = {1: 27.0, 2: 31.7, 4: 36.4, 9: 41.5, 18: 43.7, 40: 57.0}
PROMPTS = 50
PROMPT_TOKENS = 1000
TARGET_MS = 50.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1024)
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _timed(into: list[float], act: Callable[[], object]) -> None:
    begun = time.thread_time()
    act()
    into.append(1e6 * (time.thread_time() - begun))


async def main() -> None:
    options = _options()
    rng, now = random.Random(options.seed), asyncio.get_running_loop().time()
    links = [HandFedLink(address=f"worker:{number}") for number in range(options.workers)]
    fleet = fleet_of(*links)
    pool = fleet.pool(served_model())
    for worker in fleet.workers:
        worker.link.load = pb.WatchLoadResponse(
            step_ms=STEPS, kv_cells_free=60_000, kv_cells=68_000
        )
        worker.link.load_at = now + 1e6
        for _ in range(rng.randint(10, 14)):
            # Far enough ahead not to be late before the last decision.
            session = Session(Progress(now, TARGET_MS, tokens=2000, running=1))
            for _ in range(rng.choice((1, 1, 1, 5))):
                session.start(worker, pb.Start(branch=new_branch()), PROMPT_TOKENS)
    prompts = [
        (Text(tuple(rng.randrange(300) for _ in range(PROMPT_TOKENS))),) for _ in range(PROMPTS)
    ]
    times: dict[str, list[float]] = {"keys": [], "root": [], "fork": []}
    for _ in range(options.decisions):
        progress, prompt = Progress(now, TARGET_MS), rng.choice(prompts)
        home = rng.choice(fleet.workers)
        _timed(times["keys"], partial(pool.prefix, prompt))
        prefix = pool.prefix(prompt)
        _timed(times["root"], partial(pool.root, prefix, (), progress))
        _timed(times["fork"], partial(pool.fork, home, 6, prefix, progress))
        pool.leave(progress)
    result: dict[str, object] = {"workers": options.workers, "seed": options.seed}
    for name, taken in times.items():
        result[f"{name}_p50_us"] = round(statistics.median(taken), 1)
        result[f"{name}_p99_us"] = round(statistics.quantiles(taken, n=100)[98], 1)
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
