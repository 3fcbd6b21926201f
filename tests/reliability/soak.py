"""Many requests at once, a part of which is given up at random moments: nothing may be left.

A real worker process under the router's coordinator. Budgets of all sizes, prompts with tags in
them, a pool and sequences that are too few for all. One JSON line last; the exit status is 1
when anything leaked, an answer failed, or too few were cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from tqdm import tqdm

from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
)
from multiverse_trainer.tiny.tasks import make_task
from tests.reliability.rig import EXACT, Rig, rig

IDLE_WITHIN_S = 20.0
SMALL = {"kv_cells": "1600", "sequences": "24", "batch_tokens": "128", "threads": "1"}
HOSTILE = (
    "<Parallel><Goal><Outline>1: a</Outline></Goal><Path>1: b</Path>",
    "</Path></Conclusion></Parallel></Goal>",
    "<Goal><Goal><Outline>",
    "<Conclusion>#1</Conclusion></Parallel><|im_end|><s></s>",
)


class Moment(StrEnum):
    """When a request is given up."""

    NEVER = "never"
    FIRST = "before the first token"
    PREFILL = "in prefill"
    PATH = "in a path"
    SIBLINGS = "waiting for siblings"
    JOIN = "at the join"
    ANY = "at any time"


GIVEN_UP = tuple(Moment)[1:]


@dataclass
class Soak:
    """Runs the requests and counts what became of them."""

    rig: Rig
    rng: Random
    bar: Any
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def _prompt(self, moment: Moment) -> str:
        prompt = make_task(self.rng).prompt
        if self.rng.random() < 0.3:
            prompt = self.rng.choice(HOSTILE) + prompt
        if moment is Moment.PREFILL:
            prompt = "7+5-3=" * self.rng.randint(30, 60) + prompt
        return prompt

    def _options(self) -> dict[str, Any]:
        rng = self.rng
        options: dict[str, Any] = {
            "max_tokens": rng.choice([1, 2, 5, 20, 60, 150, 400, 1000]),
            "temperature": rng.choice([0.0, 0.0, 1.0]),
            "seed": rng.randrange(1 << 32),
            "parallel": rng.choice(["auto"] * 8 + ["serial", "off"]),
        }
        if rng.random() < 0.2:
            options["max_critical_tokens"] = rng.randint(1, 200)
        if rng.random() < 0.2:
            options["max_path_tokens"] = rng.randint(1, 40)
        if rng.random() < 0.1:
            options["deadline_s"] = rng.choice([0.001, 0.05, 0.5])
        return options

    async def one(self, moment: Moment) -> None:
        """Ask, and leave at the moment, if it comes."""
        options = self._options()
        if moment in (Moment.PATH, Moment.SIBLINGS, Moment.JOIN):  # it has to fork for that
            options = {"max_tokens": self.rng.choice([400, 1000]), "temperature": 0.0}
        request = self.rig.request(self._prompt(moment), **options)
        left = False
        async with self.rig.answers.answer(request) as events:
            match moment:
                case Moment.FIRST:
                    left = await self._leave_at_once(self.rng.randint(0, 3))
                case Moment.PREFILL:
                    async for event in events:
                        if isinstance(event, StartEvent):  # nothing is computed yet
                            left = await self._leave_at_once(self.rng.randint(1, 50))
                            break
                case Moment.ANY:
                    left = await self._leave_after(events, self.rng.expovariate(2))
                case _:
                    left = await self._leave_at(events, moment)
        self.counts["cancelled" if left else "ended"] += 1
        if left:
            self.counts[moment] += 1
        self.bar.update()

    async def _leave_at_once(self, turns: int) -> bool:
        """After so many turns of the event loop."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return True

    async def _leave_after(self, events: AsyncIterator[AnswerEvent], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                async for event in events:
                    self._count(event)
            return False
        except TimeoutError:
            return True

    async def _leave_at(self, events: AsyncIterator[AnswerEvent], moment: Moment) -> bool:
        texts, paths = self.rng.randint(1, 40), 0
        async for event in events:
            self._count(event)
            match event:
                case ForkEvent():
                    paths += event.k
                case PathEndEvent():
                    paths -= 1
                    if moment is Moment.SIBLINGS and paths > 0:
                        return True
                case JoinEvent() if moment is Moment.JOIN:
                    return True
                case TextEvent() if event.path != "0":
                    texts -= 1
                    if moment is Moment.PATH and texts <= 0:
                        return True
        return False

    def _count(self, event: AnswerEvent) -> None:
        if isinstance(event, ForkEvent):
            self.counts["forks"] += 1
        if isinstance(event, ErrorEvent):
            self.failures.append(f"{event.kind}: {event.message}")


async def whole(rig: Rig, prompt: str, **options: Any) -> list[AnswerEvent]:
    """An answer to its end."""
    async with rig.answers.answer(rig.request(prompt, temperature=0.0, **options)) as events:
        return [event async for event in events]


def said(events: list[AnswerEvent]) -> list[tuple[str, str]]:
    """Path by path, what was said."""
    paths: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextEvent):
            paths[event.path] = paths.get(event.path, "") + event.delta
    return sorted(paths.items())


async def soak(
    model: Path, requests: int, cancelled: int, at_once: int, seed: int
) -> dict[str, Any]:
    """The JSON line."""
    rng = Random(seed)
    moments = [GIVEN_UP[number % len(GIVEN_UP)] for number in range(cancelled * 5 // 4)]
    moments += [Moment.NEVER] * (requests - len(moments))
    rng.shuffle(moments)
    async with rig(model, **{**SMALL, **EXACT}) as running:
        probe = make_task(rng).prompt
        before = said(await whole(running, probe))
        await running.until_idle(IDLE_WITHIN_S)
        tasks_before = len(asyncio.all_tasks())
        begun = time.perf_counter()
        with tqdm(total=requests, desc="soak") as bar:
            test = Soak(running, rng, bar)
            await _at_once(test, moments, at_once)
        seconds = time.perf_counter() - begun
        idle = await running.until_idle(IDLE_WITHIN_S)
        leaks = await _leaks(running, tasks_before)
        same = said(await whole(running, probe)) == before
        totals = await running.metrics()
    return {
        "requests": requests,
        "cancelled": test.counts["cancelled"],
        "forks": test.counts["forks"],
        **leaks,
        "failed": len(test.failures),
        "failures": test.failures[:3],
        "cancelled_at": {str(moment): test.counts[moment] for moment in GIVEN_UP},
        "preemptions": int(totals["preemptions_total"]),
        "revocations": int(totals["revocations_total"]),
        "evictions": int(totals["evictions_total"]),
        "seconds": round(seconds, 1),
        "same_answer_after": same,
        "passed": idle
        and same
        and not test.failures
        and not any(leaks.values())
        and test.counts["cancelled"] >= cancelled,
    }


async def _at_once(test: Soak, moments: list[Moment], at_once: int) -> None:
    slots = asyncio.Semaphore(at_once)

    async def one(moment: Moment) -> None:
        async with slots:
            await test.one(moment)

    async with asyncio.TaskGroup() as group:
        for moment in moments:
            group.create_task(one(moment))


async def _leaks(rig: Rig, tasks_before: int) -> dict[str, int]:
    """What is still held when all requests are over."""
    told = await rig.metrics()
    for _ in range(100):  # tasks that were cancelled end in the next turns of the loop
        if len(asyncio.all_tasks()) > tasks_before:
            await asyncio.sleep(0.01)
    inflight = rig.answers.running + rig.fleet.requests
    inflight += int(told["branches/running"] + told["branches/waiting"])
    return {
        "leaked_sequences": int(told["sequences"]),
        "leaked_cells": int(told["kv_cells/running"] + told["kv_cells/leased"]),
        "leaked_leases": int(told["leases"]),
        "leaked_tasks": len(asyncio.all_tasks()) - tasks_before,
        "leaked_inflight": inflight,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--cancelled", type=int, default=300, help="at least so many")
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = asyncio.run(
        soak(options.model, options.requests, options.cancelled, options.at_once, options.seed)
    )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
