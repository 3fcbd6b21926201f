"""Users at work, without locust's page: for so many seconds, all their samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import gevent
from locust import User
from locust.env import Environment
from locust.runners import LocalRunner

from loadtest.sample import Outcome, Sample
from loadtest.users.base import begun

GRACE_S = 60.0  # that requests have to end, behind the run


def run_users(
    kinds: Sequence[type[User]],
    host: str,
    users: int,
    seconds: float,
    spawn_s: float,
    later: Sequence[tuple[float, Callable[[], None]]] = (),
) -> list[Sample]:
    """Samples of requests that were begun within `seconds`; each may end.

    Users come evenly over `spawn_s`. `later` are things to do after so many seconds.
    """
    samples: list[Sample] = []
    over = inf  # what is begun after it is not of the run: users that woke while they were ended
    cut = inf  # who has not ended by then is ended

    def keep(context: dict[str, Any], **_: object) -> None:
        sample: Sample = context["sample"]
        if sample.at > over:
            return
        if time.monotonic() > cut:  # however its library says that
            sample.outcome, sample.error = Outcome.UNFINISHED, ""
        samples.append(sample)

    environment = Environment(user_classes=list(kinds), host=host, stop_timeout=GRACE_S)
    environment.events.request.add_listener(keep)  # type: ignore[no-untyped-call]
    runner: LocalRunner = environment.create_local_runner()
    begun()
    runner.start(users, spawn_rate=users / spawn_s)
    doing = [gevent.spawn_later(after, what) for after, what in later]
    gevent.sleep(seconds)
    over = time.time() - begun()
    cut = time.monotonic() + GRACE_S - 0.5
    runner.quit()
    runner.greenlet.join()
    gevent.joinall(doing, raise_error=True)
    return samples
