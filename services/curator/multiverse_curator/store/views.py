"""Samples as they are shown: pages of many, and everything about one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from multiverse_curator.faults import STAGES, Stage
from multiverse_curator.store.database import Database
from multiverse_curator.store.jobs import Job, Jobs
from multiverse_curator.store.ledger import calls_by_state
from multiverse_curator.store.samples import State
from multiverse_curator.store.tables import broken_rows, calls, jobs, outputs, samples
from multiverse_shared.errors import NotFound

MOST_ID = 2**31 - 1  # that the database can hold
MOST_CALLS = 200  # of one sample that are shown


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list. `stage`: the next one, while the sample is pending."""

    id: int
    key: str
    title: str
    state: State
    stage: Stage
    reason: str
    failed_stage: str


@dataclass(frozen=True, slots=True)
class Call:
    """A line of the ledger."""

    id: int
    stage: str
    state: str
    begun: float
    input_tokens: int
    output_tokens: int
    cost: float
    note: str


@dataclass(frozen=True, slots=True)
class Detail:
    row: Row
    job: Job
    source: dict[str, Any]
    tries: dict[str, int]
    outputs: dict[str, Any]
    result: dict[str, Any] | None
    calls: list[Call]


_ROW = [samples.c[name] for name in Row.__dataclass_fields__]
_CALL = [calls.c[name] for name in Call.__dataclass_fields__]


class Views:
    """Jobs must have been looked up before: a page asks no tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        job: str,
        *,
        state: State | None = None,
        stage: Stage | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> list[Row]:
        """In the order of their ids, from behind `after`. `stage`: of pending samples."""
        query = select(*_ROW).where(samples.c.job == job, samples.c.id > after)
        if state is not None:
            query = query.where(samples.c.state == state.value)
        if stage is not None:
            pending = samples.c.state == State.PENDING.value
            query = query.where(pending, samples.c.stage == stage.value)
        with self._database.read() as db:
            return [_row(row) for row in db.execute(query.order_by(samples.c.id).limit(limit))]

    def stages(self, job: str) -> dict[str, int]:
        """Pending samples by the stage that is before them."""
        pending = (samples.c.job == job) & (samples.c.state == State.PENDING.value)
        query = select(samples.c.stage, func.count()).where(pending).group_by(samples.c.stage)
        with self._database.read() as db:
            found = {stage: count for stage, count in db.execute(query)}
        return {stage.value: found.get(stage.value, 0) for stage in STAGES}

    def calls(self, job: str) -> dict[str, int]:
        """Calls by what became of them."""
        with self._database.read() as db:
            return calls_by_state(db, job)

    def broken(self, job: str, limit: int = 100) -> list[tuple[str, int, str]]:
        """File, line and reason of rows that were left out."""
        query = select(broken_rows.c.file, broken_rows.c.line, broken_rows.c.reason)
        query = query.where(broken_rows.c.job == job).order_by(broken_rows.c.line).limit(limit)
        with self._database.read() as db:
            return [(row.file, row.line, row.reason) for row in db.execute(query)]

    def detail(self, sample: int, tenant: str | None) -> Detail:
        """NotFound if there is no such sample, or it is another's."""
        if not 0 < sample <= MOST_ID:
            raise NotFound(f"no sample {sample}", field="sample")
        more = (samples.c.job, samples.c.source, samples.c.tries, samples.c.result)
        with self._database.read() as db:
            row = db.execute(select(*_ROW, *more).where(samples.c.id == sample)).one_or_none()
            made = select(outputs.c.stage, outputs.c.output).where(outputs.c.sample == sample)
            found = {stage: output for stage, output in db.execute(made)}
            asked = select(*_CALL).where(calls.c.sample == sample)
            ledger = db.execute(asked.order_by(calls.c.id).limit(MOST_CALLS)).all()
        if row is None:
            raise NotFound(f"no sample {sample}", field="sample")
        try:
            job = Jobs(self._database).get(row.job, tenant)
        except NotFound:
            raise NotFound(f"no sample {sample}", field="sample") from None
        listed = [Call(**call._mapping) for call in ledger]
        return Detail(_row(row), job, row.source, row.tries, found, row.result, listed)

    def totals(self) -> list[tuple[str, int, int, float, int, int]]:
        """Of all jobs by state, for metrics: jobs, samples, money, tokens in, tokens out."""
        count = jobs.c.pending + jobs.c.converted + jobs.c.sequential + jobs.c.dead
        sums = [func.coalesce(func.sum(value), 0) for value in (count, jobs.c.spent)]
        tokens = [
            func.coalesce(func.sum(jobs.c[f"{way}_tokens"]), 0) for way in ("input", "output")
        ]
        query = select(jobs.c.state, func.count(), *sums, *tokens).group_by(jobs.c.state)
        with self._database.read() as db:
            return [tuple(row) for row in db.execute(query)]

    def sample_totals(self) -> dict[str, int]:
        """Samples of all jobs by state, from the counters of the jobs."""
        sums = [func.coalesce(func.sum(jobs.c[state.value]), 0) for state in State]
        with self._database.read() as db:
            row = db.execute(select(*sums)).one()
        return {state.value: int(count) for state, count in zip(State, row, strict=True)}


def _row(row: Any) -> Row:
    values = {name: row._mapping[name] for name in Row.__dataclass_fields__}
    return Row(**{**values, "state": State(row.state), "stage": Stage(row.stage)})
