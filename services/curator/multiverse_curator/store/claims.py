"""Which samples are to be worked on, and who works on which.

A sample of a running job is handed out (`due` lies ahead), claimed by a task (`owner`), and handed
out again when its time is over: a message that was lost, or a worker that died, costs no more than
that. A claim is renewed while its task lives. Messages are hints; only a claim counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, update

from multiverse_curator.store.database import Database
from multiverse_curator.store.jobs import JobState
from multiverse_curator.store.ledger import book_lost
from multiverse_curator.store.samples import LOCAL, State
from multiverse_curator.store.tables import jobs, samples


@dataclass(frozen=True, slots=True)
class Due:
    """A sample that is to be handed out."""

    sample: int
    job: str
    priority: int


class Claims:
    """`lease_s`: how long something may go unheard of before it is taken for lost."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database = database
        self._lease_s = lease_s

    def take_due(self, most: int) -> list[Due]:
        """Samples to hand out now, those of high priority first; each to one caller only."""
        now = time.time()
        running = select(jobs.c.id, jobs.c.priority, jobs.c.in_flight)
        running = running.where(jobs.c.state == JobState.RUNNING.value, jobs.c.pending > 0)
        running = running.where(jobs.c.id != LOCAL)  # nobody asked the service for that one
        with self._database.read() as db:
            open_jobs = db.execute(running.order_by(jobs.c.priority.desc(), jobs.c.created)).all()
        taken: list[Due] = []
        for job in open_jobs:
            if most > len(taken):
                room = min(job.in_flight, most - len(taken))
                ids = self._take(job.id, job.in_flight, room, now)
                taken += [Due(sample, job.id, job.priority) for sample in ids]
        return taken

    def _take(self, job: str, in_flight: int, room: int, now: float) -> list[int]:
        pending = (samples.c.job == job) & (samples.c.state == State.PENDING.value)
        out = select(func.count()).where(pending, samples.c.due >= now)
        ready = pending & (samples.c.due < now) & (samples.c.owner == "")
        query = select(samples.c.id).where(ready)
        with self._database.read() as db:  # most often there is nothing to do
            if db.execute(query.limit(1)).one_or_none() is None:
                return []
        with self._database.write() as db:
            room = min(room, in_flight - (db.scalar(out) or 0))
            if room <= 0:
                return []
            query = query.order_by(samples.c.id).limit(room).with_for_update(skip_locked=True)
            ids = list(db.scalars(query))
            handed = update(samples).where(samples.c.id.in_(ids))
            db.execute(handed.values(due=now + self._lease_s))
        return ids

    def claim(self, sample: int, owner: str) -> str | None:
        """The job of the sample if it is free, pending and its job runs; else None."""
        running = select(jobs.c.id).where(jobs.c.state == JobState.RUNNING.value)
        free = (samples.c.id == sample) & (samples.c.owner == "")
        free &= (samples.c.state == State.PENDING.value) & samples.c.job.in_(running)
        claimed = update(samples).where(free).values(owner=owner, due=time.time() + self._lease_s)
        with self._database.write() as db:
            job: str | None = db.scalar(claimed.returning(samples.c.job))
        return job

    def renew(self, owners: Sequence[str]) -> None:
        """These tasks live."""
        with self._database.write() as db:
            mine = update(samples).where(samples.c.owner.in_(owners))
            db.execute(mine.values(due=time.time() + self._lease_s))

    def lost(self, owners: Iterable[str]) -> set[str]:
        """Those that hold no claim any more, or whose job is cancelled."""
        wanted = set(owners)
        held = select(samples.c.owner).join(jobs, jobs.c.id == samples.c.job)
        held = held.where(samples.c.owner.in_(wanted), jobs.c.state != JobState.CANCELLED.value)
        with self._database.read() as db:
            return wanted - set(db.scalars(held))

    def release(self, sample: int, owner: str, *, again: bool) -> bool:
        """The claim ends. Whether the sample is still pending, and to be handed on at once.

        `again`: hand it on if its job runs; else it waits until it is due.
        """
        mine = (samples.c.id == sample) & (samples.c.owner == owner)
        due = time.time() + (self._lease_s if again else 0.0)
        freed = update(samples).where(mine).values(owner="", due=due)
        row = freed.returning(samples.c.job, samples.c.state)
        with self._database.write() as db:
            found = db.execute(row).one_or_none()
            if found is None or found.state != State.PENDING.value or not again:
                return False
            state = db.scalar(select(jobs.c.state).where(jobs.c.id == found.job))
            if state == JobState.RUNNING.value:
                return True
            db.execute(update(samples).where(samples.c.id == sample).values(due=0.0))
            return False

    def expire(self) -> int:
        """Claims that nobody renewed: free again, with their calls in flight booked as lost."""
        over = (samples.c.owner > "") & (samples.c.due < time.time())
        query = select(samples.c.id, samples.c.job).where(over)
        with self._database.read() as db:
            if db.execute(query.limit(1)).one_or_none() is None:
                return 0
        with self._database.write() as db:
            rows = db.execute(query.with_for_update(skip_locked=True)).all()
            for row in rows:
                db.execute(update(samples).where(samples.c.id == row.id).values(owner="", due=0.0))
                book_lost(db, row.job, row.id)
        return len(rows)
