"""A client that leaves ends its work at once: nothing runs, waits or is held for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import httpx
import pytest

from multiverse_cli.stack import Stack
from tests.e2e import leaving
from tests.e2e.answers import FLAT, NESTED, Ask, Tree, events_of
from tests.e2e.load import LoadMeter, busy, eventually
from tests.e2e.processes import frozen

LEAVES = 50
AT_ONCE = 10


def running(client: httpx.Client) -> int:
    return int(client.get("/ready").json()["running"])


def until_gone(client: httpx.Client, load: LoadMeter) -> None:
    """Within five seconds nothing is left of any request, in worker and router."""
    load.until_idle(5.0)
    eventually(lambda: running(client) == 0, "a router without requests")


@pytest.mark.parametrize("count", [0, 20, 70])
def test_leaving_a_stream_after_some_events_ends_its_work(
    stack: Stack, client: httpx.Client, load: LoadMeter, count: int
) -> None:
    leaving.after_events(stack.url, NESTED, count)
    until_gone(client, load)


def test_leaving_before_a_whole_answer_is_there_ends_its_work(
    stack: Stack, client: httpx.Client, load: LoadMeter
) -> None:
    with leaving.connect(stack.url, NESTED):
        eventually(lambda: busy(load.now()), "a worker that has begun")
    until_gone(client, load)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_leaving_before_the_worker_has_seen_the_request_ends_its_work(
    stack: Stack, client: httpx.Client, load: LoadMeter, stream: bool
) -> None:
    with frozen(stack.process_id("worker")):
        with leaving.connect(stack.url, NESTED, stream=stream):
            eventually(lambda: running(client) == 1, "a router that has begun")
        eventually(lambda: running(client) == 0, "a router that has noticed")
    until_gone(client, load)


def test_fifty_clients_that_leave_at_any_moment_leave_nothing_behind(
    stack: Stack, client: httpx.Client, load: LoadMeter, told: Ask
) -> None:
    rng = Random(7)
    ways: list[Callable[[], None]] = [
        lambda: leaving.after_events(stack.url, NESTED, rng.randint(0, 150)),
        lambda: leaving.after_events(stack.url, FLAT, rng.randint(0, 80), parallel="serial"),
        lambda: leaving.after_chunks(stack.url, FLAT, rng.randint(0, 60)),
        lambda: leaving.connect(stack.url, NESTED).close(),
        lambda: leaving.connect(stack.url, FLAT, stream=True).close(),
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, LEAVES, AT_ONCE):
            leaves = [
                pool.submit(ways[number % len(ways)]) for number in range(first, first + AT_ONCE)
            ]
            for leave in leaves:
                leave.result()
            until_gone(client, load)
    assert Tree(events_of(client, FLAT)).ids() == Tree(told(FLAT, parallel="auto")).ids()
