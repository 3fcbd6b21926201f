"""One stage of one sample, claimed, done and handed on; and all that a worker process shares.

Whatever happens here, the database says what was done: a worker may be killed at any moment, and a
message may come twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis import Redis

from multiverse_curator.asking import Asking
from multiverse_curator.checks.independence import LikelihoodIndependence
from multiverse_curator.pipeline import Independence, Pipeline
from multiverse_curator.service.metrics import WorkerMetrics
from multiverse_curator.service.options import JobOptions
from multiverse_curator.service.pace import RedisPace
from multiverse_curator.service.settings import CuratorSettings
from multiverse_curator.service.teachers import read_teachers
from multiverse_curator.service.worker.bench import Benches
from multiverse_curator.store import BudgetSpent, Database, State, Store
from multiverse_curator.store.claims import Claims, Due
from multiverse_curator.store.jobs import Job, Jobs
from multiverse_curator.teachers.contract import TeacherMisconfigured
from multiverse_shared.errors import Conflict

REDIS_S = 5.0  # most time for one answer of Redis

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A stage that is being worked on in one of the threads."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[State]

    def cancel(self) -> None:
        self.loop.call_soon_threadsafe(self.task.cancel)


class Work:
    """Of one worker process. InvalidRequest, OSError when its settings can't be used."""

    def __init__(self, settings: CuratorSettings) -> None:
        self.settings = settings
        self.metrics = WorkerMetrics()
        self.teachers = read_teachers(settings.teachers_file)
        self._database = Database(settings.database.get_secret_value())
        self.claims = Claims(self._database, settings.lease_s)
        self._jobs = Jobs(self._database)
        self._redis = Redis.from_url(
            settings.redis.get_secret_value(),
            socket_timeout=REDIS_S,
            socket_connect_timeout=REDIS_S,
        )
        self._benches = Benches(self.teachers, self.metrics)
        self._independence: Independence | None = None
        if settings.independence_model:
            self._independence = LikelihoodIndependence(settings.independence_model)
        self._running: dict[str, Running] = {}
        self._lock = threading.Lock()
        self.metrics.running.set_function(lambda: len(self._running))

    def close(self) -> None:
        """When no thread works any more."""
        self._benches.close()
        self._redis.close()
        self._database.close()

    def advance(self, sample: int, hand_on: Callable[[Due], None]) -> None:
        """The next stage of a sample, if it is free; then `hand_on` what comes after."""
        owner = f"{os.getpid()}-{secrets.token_hex(12)}"
        job_id = self.claims.claim(sample, owner)
        if job_id is None:
            return
        job = self._jobs.get(job_id)
        again = False
        try:
            again = self._stage(sample, job, owner)
        finally:
            goes_on = self.claims.release(sample, owner, again=again)
        if goes_on:
            hand_on(Due(sample, job.id, job.priority))

    def _stage(self, sample: int, job: Job, owner: str) -> bool:
        """Whether the sample may be handed on at once."""
        store, bench = Store(self._database, job.id, owner), self._benches.mine()
        stage = store.sample(sample).next_stage
        begun, end = time.monotonic(), "failed"
        try:
            state = bench.run(self._limited(sample, job, owner, store))
            end = state.value
            return True
        except asyncio.CancelledError:
            end = "cancelled"
            return False
        except TimeoutError:
            end = "too long"
            log.error("sample %d: %s took more than the limit; again later", sample, stage)
            return False
        except BudgetSpent as error:
            end = "budget"
            if not error.for_now:
                self._stop(job, "the budget is spent: resume with a larger one")
            return False
        except TeacherMisconfigured as error:
            end = "misconfigured"
            self._stop(job, str(error))
            return False
        finally:
            self.metrics.stages.labels(stage.value, end).inc()
            self.metrics.stage_seconds.labels(stage.value).observe(time.monotonic() - begun)

    async def _limited(self, sample: int, job: Job, owner: str, store: Store) -> State:
        task = asyncio.current_task()
        assert task
        with self._lock:
            self._running[owner] = Running(asyncio.get_running_loop(), task)
        try:
            async with asyncio.timeout(self.settings.stage_limit_s):
                return await self._pipeline(job, store).advance(sample)
        finally:
            with self._lock:
                del self._running[owner]

    def _pipeline(self, job: Job, store: Store) -> Pipeline:
        options = JobOptions.model_validate(job.options)
        entry = self.teachers.get(options.teacher)
        if entry is None:
            raise TeacherMisconfigured(f"no teacher {options.teacher!r} in this worker's file")
        teacher = self._benches.mine().teacher(options.teacher)
        pace = RedisPace(
            self._redis, options.teacher, entry.requests_per_minute, entry.tokens_per_minute
        )
        asking = Asking(teacher, store.ledger, pace, options.terms(entry))
        return Pipeline(store, asking, options.rules(self._independence))

    def _stop(self, job: Job, reason: str) -> None:
        try:
            self._jobs.pause(job.id, reason=reason)
            log.warning("job %s pauses: %s", job.id, reason)
        except Conflict:
            log.info("job %s has ended already", job.id)

    def running(self) -> dict[str, Running]:
        """By the owner of the claim."""
        with self._lock:
            return dict(self._running)

    def cancel(self, owners: set[str]) -> None:
        running = self.running()
        for owner in owners & running.keys():
            running[owner].cancel()
