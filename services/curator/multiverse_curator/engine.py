"""Runs a pipeline over all samples of a store, many at once, on this machine.

Knows concurrency and when to stop. Samples are read page by page, so memory does not grow with
their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from multiverse_curator.pipeline import Pipeline
from multiverse_curator.source import Source
from multiverse_curator.store import BudgetSpent, State, Store
from multiverse_curator.teachers.contract import TeacherMisconfigured

PAGE = 200  # rows read at once


@dataclass(slots=True)
class Run:
    """`stopped` says why samples are left, if they are."""

    done: dict[State, int] = field(default_factory=dict)
    stopped: str = ""


def load(store: Store, sources: Iterable[Source]) -> int:
    """Rows that are new to the store."""
    rows = iter(sources)
    new = 0
    while page := list(islice(rows, PAGE)):
        new += store.add(page)
    return new


async def run(
    pipeline: Pipeline, store: Store, in_flight: int, progress: Callable[[State], None]
) -> Run:
    """Every pending sample to its end, `in_flight` at a time.

    Stops cleanly when the budget is spent or the teacher is misconfigured; what is pending then
    goes on in the next run.
    """
    store.ledger.book_lost()
    result = Run()
    ids = store.ids(State.PENDING)
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(_work(pipeline, ids, result, progress))
    return result


async def _work(
    pipeline: Pipeline, ids: Iterator[int], result: Run, progress: Callable[[State], None]
) -> None:
    while not result.stopped and (sample_id := next(ids, None)) is not None:
        try:
            state = await pipeline.finish(sample_id)
        except BudgetSpent:
            result.stopped = "the budget is spent"
        except TeacherMisconfigured as error:
            result.stopped = str(error)
        else:
            result.done[state] = result.done.get(state, 0) + 1
            progress(state)
