"""What a worker does beside its tasks, again and again: renew claims, end calls, hand out samples.

Every worker does all of it, so none is special; the database sees to it that each sample is handed
out by one of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from multiverse_curator.service.worker.work import Work
from multiverse_curator.store.claims import Due

MOST_HANDED_OUT = 1000  # samples at once
JOIN_S = 10.0

log = logging.getLogger(__name__)


class Rounds:
    """A thread that calls `go` every `every_s`; one that fails is told, and tried again."""

    def __init__(self, name: str, every_s: float, go: Callable[[], None]) -> None:
        self._every_s = every_s
        self._go = go
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            try:
                self._go()
            except (SQLAlchemyError, RedisError, OperationalError, OSError) as error:
                log.warning("%s: %s; again in %g s", self._thread.name, error, self._every_s)


class Watch:
    """Claims of this worker: renewed while their tasks live; tasks without one are ended."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._renewed = 0.0

    def go(self) -> None:
        owners = list(self._work.running())
        if not owners:
            return
        now = time.monotonic()
        if now - self._renewed >= self._work.settings.lease_s / 3:
            self._work.claims.renew(owners)
            self._renewed = now
        self._work.cancel(self._work.claims.lost(owners))


class HandingOut:
    """Samples that are due become messages; claims that nobody renewed are ended."""

    def __init__(self, work: Work, send: Callable[[Due], None]) -> None:
        self._work = work
        self._send = send

    def go(self) -> None:
        metrics = self._work.metrics
        metrics.expired.inc(self._work.claims.expire())
        for due in self._work.claims.take_due(MOST_HANDED_OUT):
            self._send(due)
            metrics.handed_out.inc()
