"""Asks all questions in all ways, some at a time, and keeps what comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from multiverse_trainer.evaluation.endpoint import Endpoint, Unanswered, Way
from multiverse_trainer.evaluation.question import Question
from multiverse_trainer.evaluation.store import Key, Store


@dataclass(frozen=True, slots=True)
class Arm:
    """Something to compare: a model at its endpoint, asked in one way."""

    endpoint: Endpoint
    way: Way
    most: int | None = None  # asked only so many of the questions, the first ones

    @property
    def name(self) -> str:
        return self.way.name


@dataclass(slots=True)
class Outcome:
    """Of one run: what failed, by key, and the wall clock of what was asked now."""

    failed: dict[Key, str] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)  # by arm
    wall_s: dict[str, float] = field(default_factory=dict)


async def ask_all(
    arms: Sequence[Arm],
    questions: Sequence[Question],
    seeds: int,
    store: Store,
    concurrency: int,
    advance: Callable[[], None] = lambda: None,
) -> Outcome:
    """Fill `store`. A question without an answer is asked again by the next run.

    Endpoints are asked at the same time, `concurrency` questions each; the arms of one of them
    after each other.
    """
    outcome = Outcome()

    async def ask(of_endpoint: Sequence[Arm]) -> None:
        for arm in of_endpoint:
            begun = time.perf_counter()
            missing = _missing(arm, questions, seeds, store, advance)
            asked = await _ask(arm, missing, store, outcome, concurrency, advance)
            outcome.asked[arm.name] = asked
            outcome.wall_s[arm.name] = time.perf_counter() - begun

    async with asyncio.TaskGroup() as endpoints:
        for endpoint in {id(arm.endpoint): arm.endpoint for arm in arms}.values():
            endpoints.create_task(ask([arm for arm in arms if arm.endpoint is endpoint]))
    return outcome


def _missing(
    arm: Arm,
    questions: Sequence[Question],
    seeds: int,
    store: Store,
    advance: Callable[[], None],
) -> Iterator[tuple[Key, Question]]:
    for question in questions[: arm.most]:
        for seed in range(seeds):
            key = Key(arm.name, question.id, seed)
            if key in store:
                advance()
            else:
                yield key, question


async def _ask(
    arm: Arm,
    missing: Iterator[tuple[Key, Question]],
    store: Store,
    outcome: Outcome,
    concurrency: int,
    advance: Callable[[], None],
) -> int:
    asked = 0

    async def work() -> None:
        nonlocal asked
        for key, question in missing:  # shared: each takes the next one
            asked += 1
            try:
                store.add(key, await arm.endpoint.ask(arm.way, question.prompt, key.seed))
            except Unanswered as error:
                outcome.failed[key] = str(error)
            advance()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(work())
    return asked


async def ask_in_turn(
    arms: Sequence[Arm],
    questions: Sequence[Question],
    store: Store,
    advance: Callable[[], None] = lambda: None,
) -> Outcome:
    """One question at a time, all arms after each other for each: times that can be compared.

    What else the machine does then meets all arms alike. The order of the arms turns from
    question to question.
    """
    outcome = Outcome()
    for number, question in enumerate(questions):
        turn = number % len(arms)
        for arm in (*arms[turn:], *arms[:turn]):
            key = Key(arm.name, question.id, 0)
            if key not in store:
                try:
                    store.add(key, await arm.endpoint.ask(arm.way, question.prompt, 0))
                except Unanswered as error:
                    outcome.failed[key] = str(error)
            advance()
    return outcome
