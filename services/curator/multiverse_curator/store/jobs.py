"""Jobs: what was submitted, by whom, and how far it is.

    running --pause--> paused --resume--> running
    running, paused --cancel--> cancelled        (final)
    running, paused --last sample ends--> done --retry of dead samples--> running

Counters are columns, so that a list costs the same however many samples there are.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from multiverse_curator.faults import Stage
from multiverse_curator.source import Broken, Source
from multiverse_curator.store.database import Database
from multiverse_curator.store.samples import State, add, add_broken_row, send_back
from multiverse_curator.store.tables import jobs, samples
from multiverse_shared.errors import Conflict, InvalidRequest, NotFound


class JobState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class NewJob:
    name: str
    tenant: str
    options: dict[str, Any]
    priority: int
    in_flight: int
    submission: str | None = None  # a client's own key: the same key is the same job


@dataclass(frozen=True, slots=True)
class Job:
    """A row; times are seconds since 1970, money is that of the teacher's prices."""

    id: str
    name: str
    tenant: str
    state: JobState
    reason: str
    options: dict[str, Any]
    priority: int
    in_flight: int
    created: float
    ended: float | None
    pending: int
    converted: int
    sequential: int
    dead: int
    broken: int
    input_tokens: int
    output_tokens: int
    spent: float

    @property
    def samples(self) -> int:
        return self.pending + self.converted + self.sequential + self.dead

    @property
    def progress(self) -> float:
        """Share of the samples that have ended."""
        return (self.samples - self.pending) / self.samples if self.samples else 1.0

    @property
    def yields(self) -> float:
        """Share of the ended samples that were converted."""
        ended = self.samples - self.pending
        return self.converted / ended if ended else 0.0


_COLUMNS = [jobs.c[name] for name in Job.__dataclass_fields__]


class Jobs:
    """`tenant` None: whoever asks may see all (workers); else only jobs of that name exist."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, new: NewJob, rows: Iterable[Source | Broken]) -> tuple[Job, bool]:
        """The job with all its samples in one transaction, and whether it is new.

        InvalidRequest when no row is a sample.
        """
        known = self._submitted(new)
        if known is not None:
            return known, False
        job = uuid.uuid4().hex
        given = {
            "name": new.name,
            "tenant": new.tenant,
            "options": new.options,
            "priority": new.priority,
            "in_flight": new.in_flight,
            "submission": new.submission,
        }
        broken: list[Broken] = []

        def sources() -> Iterable[Source]:
            for row in rows:
                if isinstance(row, Source):
                    yield row
                else:
                    broken.append(row)

        begun = {"id": job, "state": JobState.RUNNING.value, "created": time.time()}
        try:
            with self._database.write() as db:
                db.execute(jobs.insert().values(**given, **begun))
                count = add(db, job, sources())
                for row in broken:
                    add_broken_row(db, job, row.file, row.line, row.reason)
                if not count:
                    first = f": {broken[0].file}:{broken[0].line}: {broken[0].reason}"
                    raise InvalidRequest(
                        f"file: no row is a sample{first if broken else ''}; give JSONL with "
                        '"prompt" and "reasoning" in each line',
                        field="file",
                    )
        except IntegrityError:
            known = self._submitted(new)
            if known is None:
                raise
            return known, False
        return self.get(job), True

    def get(self, job: str, tenant: str | None = None) -> Job:
        """NotFound if there is none, or it is another's."""
        with self._database.read() as db:
            row = db.execute(select(*_COLUMNS).where(_mine(job, tenant))).one_or_none()
        if row is None:
            raise NotFound(f"no job {job!r}", field="job")
        return _job(row)

    def page(
        self, tenant: str | None, limit: int, before: tuple[float, str] | None = None
    ) -> list[Job]:
        """The newest first; `before` is (created, id) of the last one of the page before."""
        query = select(*_COLUMNS).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(limit)
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        if before is not None:
            older = (jobs.c.created == before[0]) & (jobs.c.id < before[1])
            query = query.where((jobs.c.created < before[0]) | older)
        with self._database.read() as db:
            return [_job(row) for row in db.execute(query)]

    def pause(self, job: str, tenant: str | None = None, reason: str = "") -> Job:
        """Calls in flight end and count; nothing new is asked."""
        return self._move(job, tenant, (JobState.RUNNING,), JobState.PAUSED, reason)

    def resume(self, job: str, tenant: str | None = None, budget: float | None = None) -> Job:
        """`budget` replaces the job's, if given."""
        options = None
        if budget is not None:
            options = {**self.get(job, tenant).options, "budget": budget}
        return self._move(job, tenant, (JobState.PAUSED,), JobState.RUNNING, "", options)

    def cancel(self, job: str, tenant: str | None = None) -> Job:
        """Calls in flight are ended, too."""
        return self._move(job, tenant, (JobState.RUNNING, JobState.PAUSED), JobState.CANCELLED, "")

    def retry(self, job: str, tenant: str | None, chosen: list[int] | None) -> int:
        """Dead samples (all, or those) begin again where they failed; how many.

        A question whose answer was refused is asked as a new one that hears the complaint; one
        that had no answer is asked as it was.
        """
        found = self.get(job, tenant)
        if found.state is JobState.CANCELLED:
            raise Conflict(f"job {job} is cancelled: submit its samples again", field="job")
        dead = (samples.c.job == job) & (samples.c.state == State.DEAD.value)
        query = select(samples.c.id, samples.c.failed_stage, samples.c.failed_question)
        query = query.add_columns(samples.c.reason).where(dead).with_for_update()
        if chosen is not None:
            query = query.where(samples.c.id.in_(chosen))
        again = {"state": State.PENDING.value, "reason": "", "failed_stage": "", "due": 0.0}
        with self._database.write() as db:
            rows = db.execute(query).all()
            for row in rows:
                if row.failed_question is not None:
                    stage = Stage(row.failed_stage)
                    send_back(db, row.id, stage, row.failed_question, row.reason)
                at = samples.c.id == row.id
                db.execute(
                    update(samples).where(at).values(**again, failed_question=None, tries={})
                )
            if rows:
                count = len(rows)
                moved = {"pending": jobs.c.pending + count, "dead": jobs.c.dead - count}
                db.execute(update(jobs).where(jobs.c.id == job).values(moved))
                done = (jobs.c.id == job) & (jobs.c.state == JobState.DONE.value)
                db.execute(update(jobs).where(done).values(state="running", ended=None))
        return len(rows)

    def _move(
        self,
        job: str,
        tenant: str | None,
        allowed: tuple[JobState, ...],
        to: JobState,
        reason: str,
        options: dict[str, Any] | None = None,
    ) -> Job:
        """Conflict names the state that does not allow it; being there already is no fault."""
        values: dict[str, Any] = {"state": to.value, "reason": reason}
        if to is JobState.CANCELLED:
            values["ended"] = time.time()
        if options is not None:
            values["options"] = options
        at = _mine(job, tenant) & jobs.c.state.in_([state.value for state in allowed])
        with self._database.write() as db:
            moved = db.execute(update(jobs).where(at).values(values)).rowcount
        now = self.get(job, tenant)
        if not moved and now.state is not to:
            raise Conflict(
                f"job {job} is {now.state.value}: only a job that is "
                f"{' or '.join(allowed)} can become {to.value}",
                field="job",
            )
        return now

    def _submitted(self, new: NewJob) -> Job | None:
        if new.submission is None:
            return None
        at = (jobs.c.tenant == new.tenant) & (jobs.c.submission == new.submission)
        with self._database.read() as db:
            row = db.execute(select(*_COLUMNS).where(at)).one_or_none()
        return _job(row) if row else None


def _mine(job: str, tenant: str | None) -> Any:
    at = jobs.c.id == job
    return at if tenant is None else at & (jobs.c.tenant == tenant)


def _job(row: Any) -> Job:
    return Job(**{**row._mapping, "state": JobState(row.state)})
