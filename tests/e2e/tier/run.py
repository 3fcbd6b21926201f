"""Paths on any worker, joins at home: the same tokens with the tier, and whatever happens to it.

Three llama.cpp workers in F32 and a Redis behind a proxy. Forking prompts are answered with all
paths at home and spread over the workers, then spread again while the tier is slow, garbles,
breaks off, is full, is gone, and with workers that have none. Each round is another tenant's, so
no round finds what one before it has cached. One JSON line last; status 1 when tokens differ, a
join recomputed something while the tier was well, or a cause was not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from redis import Redis

from multiverse_shared.encode import TextBlock
from multiverse_trainer.tiny.tasks import Task, make_task
from tests.e2e.tier.proxy import Harm, Proxy
from tests.e2e.tier.replicas import Answer, Replicas, Router, replicas
from tests.redis_server import RedisServer, redis_server

RECOVERS_WITHIN_S = 120.0
TIER = {"tier_fetch": "always", "tier_cap_mib": "256"}
FEWEST_PATHS = 4  # fewer may well stay at home


@dataclass
class Round:
    """What one round was seen to do."""

    name: str
    seconds: float
    different: int  # answers whose tokens are others than at home, near-ties aside
    counted: Counter[str]

    def sums(self, prefix: str) -> dict[str, int]:
        """Counters of one family, by label."""
        return {
            name.removeprefix(prefix): int(value)
            for name, value in sorted(self.counted.items())
            if name.startswith(prefix)
        }

    @property
    def report(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 2),
            "different": self.different,
            "fetched_tokens": int(self.counted["tier_fetched_tokens"]),
            "recomputed_tokens": self.sums("tier_recomputed_tokens/"),
            "recomputes": self.sums("tier_recomputes/"),
            "unstored": self.sums("tier_unstored_blocks/"),
        }


@dataclass
class Rounds:
    """All rounds over one set of prompts; the first one says what the answers are."""

    prompts: Sequence[str]
    expected: list[Answer] = field(default_factory=list)
    done: dict[str, Round] = field(default_factory=dict)

    async def run(self, name: str, workers: Replicas, router: Router) -> Round:
        before = await workers.counted()
        began = time.monotonic()
        answers = await router.ask(self.prompts, tenant=name)
        seconds = time.monotonic() - began
        self.expected = self.expected or answers
        pairs = zip(self.expected, answers, strict=True)
        different = sum(one.differs_from(two) for one, two in pairs)
        counted = await workers.counted()
        counted.subtract(before)
        self.done[name] = done = Round(name, seconds, different, +counted)
        print(name, json.dumps(done.report), file=sys.stderr, flush=True)
        return done

    def faults(self) -> list[str]:
        """What should not have been."""
        differ = [done for done in self.done.values() if done.different]
        found = [f"{done.name}: {done.different} answers differ" for done in differ]
        if not sum(answer.forks for answer in self.expected):
            found.append("no answer forked")
        for name, cause in CAUSES.items():
            if name not in self.done:
                continue
            report = self.done[name].report
            if not report["recomputes"]:
                found.append(f"{name}: nothing was recomputed")
            if cause not in report["recomputes"] | report["unstored"]:
                found.append(f"{name}: nothing was counted as {cause}")
        if "spread" in self.done:
            report = self.done["spread"].report
            if report["recomputes"] or not report["fetched_tokens"]:
                found.append("spread: a join recomputed, or nothing travelled")
        return found


CAUSES = {
    "flip": "corrupt",
    "cut": "broken",
    "slow": "slow",
    "full": "full",
    "killed": "broken",
    "off": "off",
}


async def recovered(workers: Replicas, router: Router, prompts: Sequence[str]) -> None:
    """Wait until nothing of an earlier harm is left: a round in which all comes from the tier."""
    async with asyncio.timeout(RECOVERS_WITHIN_S):
        for number in range(1 << 30):
            before = await workers.counted()
            await router.ask(prompts, tenant=f"recover-{id(router)}-{time.monotonic_ns()}-{number}")
            counted = await workers.counted()
            counted.subtract(before)
            bad = [n for n in +counted if n.startswith(("tier_recomputes", "tier_unstored"))]
            if not bad:
                return


async def run(
    model: Path, number: int, prompts: Sequence[str], names: Sequence[str], timeout_s: float
) -> Rounds:
    """The rounds called `names`, in an order of their own."""
    rounds = Rounds(prompts)
    with redis_server() as redis:
        async with Proxy(redis.port).serving() as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            settings = TIER | {"tier_url": url, "tier_timeout_s": str(timeout_s)}
            async with replicas(model, number, **settings) as workers:
                async with workers.router(siblings="local") as local:
                    await rounds.run("local", workers, local)
                async with workers.router(siblings="spread") as spread:
                    await rounds.run("spread", workers, spread)
                    for harm in (Harm.FLIP, Harm.CUT, Harm.SLOW):
                        if harm in names:
                            proxy.harm = harm
                            await rounds.run(harm, workers, spread)
                            proxy.harm = Harm.NONE
                            await recovered(workers, spread, prompts[:3])
                    await _on_the_server(rounds, redis, workers, spread, names)
    if "off" in names:
        async with replicas(model, number) as workers, workers.router(siblings="spread") as spread:
            await rounds.run("off", workers, spread)
    return rounds


async def _on_the_server(
    rounds: Rounds, redis: RedisServer, workers: Replicas, spread: Router, names: Sequence[str]
) -> None:
    if "full" in names:
        with Redis(port=redis.port) as client:
            client.config_set("maxmemory", 1)
            await rounds.run("full", workers, spread)
            client.config_set("maxmemory", 0)
        await recovered(workers, spread, rounds.prompts[:3])
    if "killed" in names:
        redis.kill()
        await rounds.run("killed", workers, spread)


def forking_prompts(number: int, seed: int) -> list[str]:
    """Of tasks with a block of several paths."""
    rng = Random(seed)
    tasks = (make_task(rng) for _ in itertools.count())
    return [task.prompt for task in itertools.islice(filter(_is_wide, tasks), number)]


def _is_wide(task: Task) -> bool:
    blocks = [item for item in task.tree if isinstance(item, TextBlock)]
    return any(len(block.paths) >= FEWEST_PATHS for block in blocks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--timeout", type=float, default=1.0, help="below the 2 s of a slow tier")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    prompts = forking_prompts(options.prompts, options.seed)
    rounds = asyncio.run(
        run(options.model, options.workers, prompts, list(CAUSES), options.timeout)
    )
    faults = rounds.faults()
    line = {
        "bench": "e2e-tier",
        "workers": options.workers,
        "prompts": options.prompts,
        "forks": sum(answer.forks for answer in rounds.expected),
        "rounds": {name: done.report for name, done in rounds.done.items()},
        "faults": faults,
    }
    print(json.dumps(line))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
