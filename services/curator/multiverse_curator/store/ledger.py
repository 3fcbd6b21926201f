"""Every call to a teacher of one job, its money, and the answers that were paid for.

A call is booked before it is sent, with the most that it may cost; what came of it, its answer and
its cost are booked in one transaction. Must not know what is asked.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, Connection, select, update

from multiverse_curator.faults import Stage
from multiverse_curator.store.database import Database
from multiverse_curator.store.tables import answers, calls, jobs


class CallState(StrEnum):
    STARTED = "started"
    ANSWERED = "answered"
    FAILED = "failed"
    LOST = "lost"  # in flight when its process ended or was told to: perhaps billed


class BudgetSpent(Exception):
    """The next question might cost more than is left.

    `for_now`: only because calls in flight might cost all that they may.
    """

    def __init__(self, *, for_now: bool) -> None:
        super().__init__()
        self.for_now = for_now


class Ledger:
    """Of one job; any number of processes may book."""

    def __init__(self, database: Database, job: str) -> None:
        self._database = database
        self._job = job

    def stored_answer(self, key: str) -> str | None:
        with self._database.read() as db:
            return db.scalar(select(answers.c.text).where(answers.c.key == key))

    def start_call(
        self, key: str, sample: int, stage: Stage, most: float = 0.0, budget: float | None = None
    ) -> int:
        """Reserves `most`; BudgetSpent if that, what is spent and what is reserved exceed it."""
        job = update(jobs).where(jobs.c.id == self._job)
        if budget is not None:
            job = job.where(jobs.c.spent + jobs.c.reserved + most <= budget)
        row = {"job": self._job, "key": key, "sample": sample, "stage": stage.value}
        begun = {"state": CallState.STARTED.value, "begun": time.time(), "reserved": most}
        with self._database.write() as db:
            inserted = db.execute(calls.insert().values(**row, **begun)).inserted_primary_key
            booked = {"reserved": jobs.c.reserved + most, **_moved(1, to=CallState.STARTED)}
            if not db.execute(job.values(booked)).rowcount:
                spent = db.scalar(select(jobs.c.spent).where(jobs.c.id == self._job)) or 0.0
                raise BudgetSpent(for_now=budget is not None and spent + most <= budget)
        assert inserted
        return int(inserted[0])

    def end_call(
        self,
        call: int,
        key: str,
        state: CallState,
        *,
        spent: tuple[int, int] = (0, 0),
        cost: float = 0.0,
        note: str = "",
        text: str | None = None,
    ) -> None:
        """Book what became of the call; `text` is its answer, and is stored with it.

        One that was taken for lost meanwhile is booked as what it turned out to be; the first
        answer to a question stays.
        """
        booked = {"state": state.value, "cost": cost, "note": note}
        tokens = {"input_tokens": spent[0], "output_tokens": spent[1]}
        at = calls.c.id == call
        with self._database.write() as db:
            query = select(calls.c.state, calls.c.reserved).where(at).with_for_update()
            was = db.execute(query).one()
            db.execute(update(calls).where(at).values(**booked, **tokens, reserved=0.0))
            if text is not None:
                row = {"key": key, "call": call, "text": text}
                self._database.insert_new(db, answers, row)
            db.execute(
                update(jobs)
                .where(jobs.c.id == self._job)
                .values(
                    reserved=jobs.c.reserved - was.reserved,
                    spent=jobs.c.spent + cost,
                    input_tokens=jobs.c.input_tokens + spent[0],
                    output_tokens=jobs.c.output_tokens + spent[1],
                    **_moved(1, CallState(was.state), state),
                )
            )

    def book_lost(self) -> int:
        """All calls of the job that are in flight: whoever made them is gone."""
        with self._database.write() as db:
            return book_lost(db, self._job)

    def spent(self) -> float:
        with self._database.read() as db:
            return float(db.scalar(select(jobs.c.spent).where(jobs.c.id == self._job)) or 0.0)


def book_lost(db: Connection, job: str, sample: int | None = None) -> int:
    """Calls in flight, of one sample if given; what they had reserved is free again."""
    left = (calls.c.job == job) & (calls.c.state == CallState.STARTED.value)
    if sample is not None:
        left &= calls.c.sample == sample
    query = select(calls.c.id, calls.c.reserved).where(left).order_by(calls.c.id)
    found = db.execute(query.with_for_update()).all()
    if found:
        lost = update(calls).where(calls.c.id.in_([call.id for call in found]))
        db.execute(lost.values(state=CallState.LOST.value, reserved=0.0))
        freed = jobs.c.reserved - sum(call.reserved for call in found)
        moved = _moved(len(found), CallState.STARTED, CallState.LOST)
        db.execute(update(jobs).where(jobs.c.id == job).values(reserved=freed, **moved))
    return len(found)


def calls_by_state(db: Connection, job: str) -> dict[str, int]:
    """Calls by what became of them, of states that there are any in; from the job's counters."""
    counters = [_counter(state) for state in CallState]
    row = db.execute(select(*counters).where(jobs.c.id == job)).one_or_none()
    found = zip(CallState, row or (), strict=False)
    return {state.value: count for state, count in found if count}


def _counter(state: CallState) -> Column[int]:
    return jobs.c[f"calls_{state.value}"]


def _moved(count: int, was: CallState | None = None, to: CallState | None = None) -> dict[str, Any]:
    """What an update of a job says of calls that left one state and came to another."""
    if was is to:
        return {}
    changes = {}
    if was is not None:
        changes[_counter(was).name] = _counter(was) - count
    if to is not None:
        changes[_counter(to).name] = _counter(to) + count
    return changes
