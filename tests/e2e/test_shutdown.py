"""A router that is asked to end: running streams end as they should, new ones are refused."""

from __future__ import annotations

import signal
from itertools import islice

import httpx

from tests.e2e.answers import FLAT, NESTED, Tree, chat_body, stream
from tests.e2e.load import LoadMeter, eventually
from tests.e2e.processes import BreakableStack, frozen


def refuses(url: str) -> bool:
    """What is new gets 503 while running answers end."""
    return httpx.post(f"{url}/v1/generate", json={"prompt": FLAT}).status_code == 503


def test_sigterm_lets_running_streams_end(breakable: BreakableStack) -> None:
    with httpx.Client(base_url=breakable.url, timeout=60) as client:
        native = stream(client, NESTED)
        events = list(islice(native, 5))
        body = chat_body(FLAT, stream=True)
        with client.stream("POST", "/v1/chat/completions", json=body) as openai:
            lines = openai.iter_lines()
            chunks = [next(lines)]
            with frozen(breakable.process_id("worker")):
                breakable.kill("router", signal.SIGTERM)
                eventually(lambda: refuses(breakable.url), "a router that takes no one new")
            events += native
            chunks += lines
    assert events[-1]["type"] == "finish"
    assert "#" in Tree(events).text()
    assert [chunk for chunk in chunks if chunk][-1] == "data: [DONE]"
    eventually(lambda: breakable.ended("router"), "a router that has ended", 10)
    with LoadMeter(breakable.worker_port) as load:
        load.until_idle(8.0)
