"""Users at work, without locust's page: for so many seconds, all their samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gevent
from locust import User
from locust.env import Environment
from locust.runners import LocalRunner

from loadtest.sample import Sample
from loadtest.users.base import begun


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

    def keep(context: dict[str, Any], **_: object) -> None:
        samples.append(context["sample"])

    environment = Environment(user_classes=list(kinds), host=host, stop_timeout=60)
    environment.events.request.add_listener(keep)  # type: ignore[no-untyped-call]
    runner: LocalRunner = environment.create_local_runner()
    begun()
    runner.start(users, spawn_rate=users / spawn_s)
    doing = [gevent.spawn_later(after, what) for after, what in later]
    gevent.sleep(seconds)
    runner.quit()
    runner.greenlet.join()
    gevent.joinall(doing, raise_error=True)
    return samples
