"""What is long: prompts of 200,000 tokens, and silence on the worker's stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from multiverse_cli.stack import Stack
from tests.bench.silence import measure
from tests.e2e.answers import events_of

ROOM = 220_000
LONG = {
    "engine": "sim",
    "sim_speed": "0",
    "sim_answers": "plain",
    "sim_context_length": str(ROOM),
    "kv_cells": str(ROOM),
    "batch_tokens": "8192",
}


@pytest.fixture(scope="module")
def long(model: Path) -> Iterator[httpx.Client]:
    """A client of a stack with room for long prompts."""
    with (
        Stack(model, worker_settings=LONG) as stack,
        httpx.Client(base_url=stack.url, timeout=90) as client,
    ):
        yield client


def test_a_prompt_of_200_000_tokens_is_answered(long: httpx.Client) -> None:
    events = events_of(long, "1" * 200_000, max_tokens=50)
    assert events[0]["prompt_tokens"] > 200_000
    assert events[-1]["type"] == "finish"


def test_a_larger_one_is_refused_with_413(long: httpx.Client) -> None:
    for prompt, field in (("1" * (ROOM + 1), "prompt"), ("1" * (5 << 20), "body")):
        answer = long.post("/v1/generate", json={"prompt": prompt})
        assert answer.status_code == 413
        assert answer.json()["error"]["param"] == field
    assert long.get("/ready").json()["running"] == 0


def test_streams_survive_an_engine_that_says_nothing(model: Path) -> None:
    """Twenty pings without data; `make bench-silence` has a whole minute."""
    result = measure(model, 4.0, keepalive_s="0.2", heartbeat_s="1")
    assert result["passed"], result
    assert result["longest_silence_s"] >= 3
    assert result["heartbeats"] >= 2
