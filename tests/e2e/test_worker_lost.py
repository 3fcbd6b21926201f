"""A worker that goes away: no stream ends in silence, and answers come back with the worker."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import httpx

from tests.e2e.answers import FLAT, NESTED, Event, Tree, chat_body, events_of, stream
from tests.e2e.load import LoadMeter, eventually
from tests.e2e.processes import BreakableStack, frozen

BEGUN = 5  # events that a client has read when something happens


def running(stack: BreakableStack) -> int:
    return int(httpx.get(f"{stack.url}/ready", timeout=10).json()["running"])


def post(stack: BreakableStack, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{stack.url}{path}", json=body, timeout=60)


def test_a_killed_worker_ends_answers_with_an_error_and_a_new_one_goes_on(
    breakable: BreakableStack,
) -> None:
    with httpx.Client(base_url=breakable.url, timeout=60) as client:
        before = Tree(events_of(client, FLAT)).text()
        events = stream(client, NESTED)
        read = list(islice(events, BEGUN))
        with frozen(breakable.process_id("worker")), ThreadPoolExecutor(2) as pool:
            chat = pool.submit(
                post, breakable, "/v1/chat/completions", chat_body(FLAT, stream=True)
            )
            whole = pool.submit(post, breakable, "/v1/generate", {"prompt": FLAT, "stream": False})
            eventually(lambda: running(breakable) == 3, "three requests in flight")
            breakable.kill("worker")
            read += events
            chatted, answered = chat.result(), whole.result()
    assert read[-1]["type"] == "error"
    assert read[-1]["kind"] == "worker_unavailable"
    assert not {"usage", "finish"} & {event["type"] for event in read}
    assert chatted.status_code == 200
    assert "event: error\n" in chatted.text
    assert "[DONE]" not in chatted.text
    assert answered.status_code == 503
    assert answered.json()["error"]["type"] == "worker_unavailable"

    ready = httpx.get(f"{breakable.url}/ready", timeout=10)
    assert ready.status_code == 503
    assert ready.json()["reason"]
    assert httpx.get(f"{breakable.url}/health").status_code == 200
    refused = post(breakable, "/v1/generate", {"prompt": FLAT})
    assert refused.status_code == 503
    assert refused.headers["retry-after"]

    breakable.heal()
    with httpx.Client(base_url=breakable.url, timeout=60) as client:
        assert Tree(events_of(client, FLAT)).text() == before
    assert running(breakable) == 0


def test_a_worker_that_is_asked_to_end_lets_running_answers_end(
    breakable: BreakableStack,
) -> None:
    """Also those that still have to fork and to join."""
    try:
        with httpx.Client(base_url=breakable.url, timeout=60) as client:
            events = stream(client, NESTED)
            read: list[Event] = list(islice(events, BEGUN))
            with frozen(breakable.process_id("worker")):
                breakable.kill("worker", signal.SIGTERM)
            read += events
        assert read[-1]["type"] == "finish", read[-1]
    finally:
        eventually(lambda: breakable.ended("worker"), "a worker that has ended", 30)


def test_a_killed_router_leaves_nothing_held_in_the_worker(breakable: BreakableStack) -> None:
    """Its branches end at once, its leases after their grace of five seconds."""
    with LoadMeter(breakable.worker_port) as load:
        with httpx.Client(base_url=breakable.url, timeout=60) as client:
            for event in stream(client, NESTED, parallel="serial"):
                if event["type"] == "path_end":
                    break
            with frozen(breakable.process_id("worker")):
                breakable.kill("router")
                eventually(lambda: breakable.ended("router"), "a router that is gone")
        load.until_idle(8.0)
