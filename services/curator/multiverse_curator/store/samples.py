"""The samples of one job, and what each stage made of them.

Must not know stages' contents: they are JSON here. Every method is one transaction, so a process
may be killed anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, Connection, delete, func, select, update

from multiverse_curator.faults import STAGES, Stage
from multiverse_curator.source import Source
from multiverse_curator.store.database import Database
from multiverse_curator.store.ledger import Ledger, calls_by_state
from multiverse_curator.store.tables import broken_rows, jobs, outputs, samples

LOCAL = "local"  # the one job of a run without a service
TITLE = 120  # characters of the prompt that lists show
_KEYS = 500  # looked up at once


class State(StrEnum):
    """Of a sample. All but `pending` are final."""

    PENDING = "pending"
    CONVERTED = "converted"
    SEQUENTIAL = "sequential"  # nothing in it can be taken side by side
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a question has to mend, and how often it was complained about."""

    text: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    id: int
    source: Source
    state: State
    tries: dict[str, int]
    complaints: dict[str, Complaint]
    reason: str
    failed_stage: str
    result: dict[str, Any] | None
    outputs: dict[Stage, Any]

    @property
    def next_stage(self) -> Stage:
        """The first one that has no output."""
        return next(stage for stage in STAGES if stage not in self.outputs)


class Store:
    """`owner`: changes to a sample count only while it is claimed under that name."""

    def __init__(self, database: Database, job: str, owner: str = "") -> None:
        self._database = database
        self._job = job
        self._owner = owner
        self.ledger = Ledger(database, job)

    def close(self) -> None:
        self._database.close()

    def begin_job(self) -> None:
        """The job is there; nothing happens if it was."""
        row = {"id": self._job, "name": self._job, "state": "running", "created": time.time()}
        with self._database.write() as db:
            self._database.insert_new(db, jobs, row)

    def add(self, sources: Iterable[Source]) -> int:
        """How many are new: a key that is there already stays as it is."""
        with self._database.write() as db:
            return add(db, self._job, sources)

    def add_broken_row(self, file: str, line: int, reason: str) -> None:
        with self._database.write() as db:
            add_broken_row(db, self._job, file, line, reason)

    def ids(self, state: State, page: int = 500) -> Iterator[int]:
        """Ids of samples in that state, read page by page; each once."""
        for row in self._pages(state, page, samples.c.id):
            yield row.id

    def results(self, page: int = 100) -> Iterator[dict[str, Any]]:
        """What became of the converted samples, in the order of their ids."""
        for row in self._pages(State.CONVERTED, page, samples.c.id, samples.c.result):
            yield row.result

    def sample(self, sample_id: int) -> Sample:
        with self._database.read() as db:
            row = db.execute(select(samples).where(samples.c.id == sample_id)).one()
            query = select(outputs.c.stage, outputs.c.output).where(outputs.c.sample == sample_id)
            made = {Stage(stage): output for stage, output in db.execute(query)}
        return Sample(
            row.id,
            Source.model_validate(row.source),
            State(row.state),
            row.tries,
            {name: Complaint(*heard) for name, heard in row.complaints.items()},
            row.reason,
            row.failed_stage,
            row.result,
            made,
        )

    def save(self, sample_id: int, stage: Stage, output: Any) -> None:
        """The stage is done; a second time changes nothing."""
        row = {"sample": sample_id, "stage": stage.value, "output": output}
        following = STAGES[STAGES.index(stage) + 1]
        with self._database.write() as db:
            if self._holds(db, sample_id) and self._database.insert_new(db, outputs, row):
                at = samples.c.id == sample_id
                db.execute(update(samples).where(at).values(stage=following.value))

    def send_back(self, sample_id: int, stage: Stage, question: str, complaint: str) -> None:
        """Forget the outputs from `stage` on, and complaints about later stages.

        The next try of that question of the stage hears the complaint.
        """
        with self._database.write() as db:
            if self._holds(db, sample_id):
                send_back(db, sample_id, stage, question, complaint)

    def finish(
        self,
        sample_id: int,
        state: State,
        *,
        reason: str = "",
        stage: Stage | None = None,
        question: str | None = None,
        result: dict[str, Any] | None = None,
    ) -> None:
        """Final, once. `question` names the one whose answer failed, where an answer did."""
        values = {"state": state.value, "reason": reason, "result": result}
        failed = {"failed_stage": stage or "", "failed_question": question}
        one = {"pending": jobs.c.pending - 1, state.value: jobs.c[state.value] + 1}
        job = update(jobs).where(jobs.c.id == self._job)
        with self._database.write() as db:
            if not self._holds(db, sample_id):
                return
            db.execute(update(samples).where(samples.c.id == sample_id).values(**values, **failed))
            db.execute(job.values(one))
            ended = job.where((jobs.c.pending == 0) & jobs.c.state.in_(("running", "paused")))
            db.execute(ended.values(state="done", ended=time.time()))

    def counts(self) -> dict[str, Any]:
        """What a run reports: samples by state, reasons, calls by state, tokens, money."""
        mine = samples.c.job == self._job
        with self._database.read() as db:
            job = db.execute(select(jobs).where(jobs.c.id == self._job)).one()
            dead = mine & (samples.c.state == State.DEAD.value)
            return {
                "samples": _grouped(db, samples.c.state, mine),
                "broken_rows": job.broken,
                "dead_at": _grouped(db, samples.c.failed_stage, dead),
                "calls": calls_by_state(db, self._job),
                "input_tokens": job.input_tokens,
                "output_tokens": job.output_tokens,
                "cost": round(job.spent, 6),
            }

    def _holds(self, db: Connection, sample_id: int) -> bool:
        """Whether the sample is pending, and still ours; it stays so in this transaction."""
        at = (samples.c.id == sample_id) & (samples.c.owner == self._owner)
        query = select(samples.c.id).where(at, samples.c.state == State.PENDING.value)
        return db.scalar(query.with_for_update()) is not None

    def _pages(self, state: State, page: int, *columns: Column[Any]) -> Iterator[Any]:
        last = 0
        while True:
            wanted = (samples.c.job == self._job) & (samples.c.state == state.value)
            query = select(*columns).where(wanted, samples.c.id > last)
            with self._database.read() as db:
                found = db.execute(query.order_by(samples.c.id).limit(page)).all()
            if not found:
                return
            yield from found
            last = found[-1].id


def add(db: Connection, job: str, sources: Iterable[Source]) -> int:
    """See `Store.add`."""
    new, rows = 0, dict[str, Source]()

    def flush() -> int:
        mine = (samples.c.job == job) & samples.c.key.in_(rows)
        for key in db.scalars(select(samples.c.key).where(mine)):
            rows.pop(key)
        if rows:
            made = [
                {"job": job, "key": key, "title": row.prompt[:TITLE], "source": row.model_dump()}
                for key, row in rows.items()
            ]
            db.execute(samples.insert(), made)
        count = len(rows)
        rows.clear()
        return count

    for source in sources:
        rows.setdefault(source.key, source)
        if len(rows) == _KEYS:
            new += flush()
    new += flush() if rows else 0
    if new:
        pending = {"pending": jobs.c.pending + new, "state": "running", "ended": None}
        db.execute(update(jobs).where(jobs.c.id == job).values(pending))
    return new


def add_broken_row(db: Connection, job: str, file: str, line: int, reason: str) -> None:
    at = (broken_rows.c.job == job) & (broken_rows.c.file == file) & (broken_rows.c.line == line)
    known = db.execute(delete(broken_rows).where(at)).rowcount
    db.execute(broken_rows.insert().values(job=job, file=file, line=line, reason=reason))
    if not known:
        db.execute(update(jobs).where(jobs.c.id == job).values(broken=jobs.c.broken + 1))


def send_back(db: Connection, sample_id: int, stage: Stage, question: str, complaint: str) -> None:
    """See `Store.send_back`."""
    later = [name.value for name in STAGES[STAGES.index(stage) :]]
    at = samples.c.id == sample_id
    row = db.execute(select(samples.c.tries, samples.c.complaints).where(at)).one()
    tries = {**row.tries, stage.value: row.tries.get(stage.value, 0) + 1}
    complaints = {
        name: text for name, text in row.complaints.items() if name.split("/")[0] not in later[1:]
    }
    name = f"{stage.value}/{question}"
    number = row.complaints.get(name, ("", 0))[1] + 1
    complaints[name] = (complaint, number)
    made = (outputs.c.sample == sample_id) & outputs.c.stage.in_(later)
    db.execute(delete(outputs).where(made))
    back = {"tries": tries, "complaints": complaints, "stage": stage.value}
    db.execute(update(samples).where(at).values(back))


def _grouped(db: Connection, column: Column[Any], only: Any) -> dict[str, int]:
    query = select(column, func.count()).where(only).group_by(column).order_by(column)
    return {name: count for name, count in db.execute(query)}
