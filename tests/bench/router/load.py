"""A load: so many streams at a time, each slot beginning its next answer when one has ended.

Slots begin spread over the length of one answer, so requests come evenly from then on; `steady`
answers are those that begin while every slot is taken. Two loads of the same plan ask for the
same answers (by seed) in the same order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from tqdm import tqdm


@dataclass(frozen=True, slots=True)
class Plan:
    """`streams` at a time, `repeats` answers by each, of `tokens` tokens at `rate` a second."""

    streams: int
    repeats: int
    tokens: int
    rate: float

    @property
    def answer_s(self) -> float:
        return self.tokens / self.rate

    @property
    def answers(self) -> int:
        return self.streams * self.repeats

    @classmethod
    def of(cls, streams: int, rate: float, seconds: float) -> Plan:
        """About `seconds` long; few streams get short answers, so that there are enough."""
        tokens = int(min(rate * seconds / 4, max(4, rate * seconds * streams / 100), 64))
        tokens = max(2, tokens)
        return cls(streams, max(3, round(rate * seconds / tokens)), tokens, rate)


@dataclass(slots=True)
class Answer:
    """What a client saw of one answer; seconds of the monotonic clock."""

    seed: int
    steady: bool
    sent: float = 0.0
    first: float = 0.0  # token
    tokens: int = 0


Ask: TypeAlias = Callable[[Answer], Awaitable[None]]  # sends a request and sees its answer end
Connect: TypeAlias = Callable[[], Awaitable[Ask]]


async def run(plan: Plan, connect: Connect) -> list[Answer]:
    """All answers of a plan, by seed. Raises what the first slot that failed raised."""
    slots = [await connect() for _ in range(plan.streams)]
    answers: list[Answer] = []
    bar = tqdm(total=plan.answers, desc=f"{plan.streams} streams", leave=False, disable=None)
    begun = time.monotonic()

    async def slot(number: int, ask: Ask) -> None:
        await asyncio.sleep(begun + plan.answer_s * number / plan.streams - time.monotonic())
        for repeat in range(plan.repeats):
            steady = repeat > 0 or plan.streams == 1
            answer = Answer(repeat * plan.streams + number + 1, steady)
            answers.append(answer)
            await ask(answer)
            bar.update()

    async with asyncio.TaskGroup() as tasks:
        for number, ask in enumerate(slots):
            tasks.create_task(slot(number, ask))
    bar.close()
    return sorted(answers, key=lambda answer: answer.seed)
