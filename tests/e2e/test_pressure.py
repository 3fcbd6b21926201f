"""A worker with little room: requests queue, memory is taken from the youngest, none fails."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from multiverse_cli.stack import Stack
from tests.e2e import leaving
from tests.e2e.answers import FLAT, NESTED, Ask, Event, Tree, events_of, whole
from tests.e2e.conftest import EXACT, MODEL
from tests.e2e.load import LoadMeter, eventually

CELLS = 512
SMALL = {**EXACT, "kv_cells": str(CELLS), "sequences": "10"}
MANY = 12


@pytest.fixture(scope="module")
def small() -> Iterator[Stack]:
    with Stack(MODEL, worker_settings=SMALL) as running:
        yield running


@pytest.fixture(scope="module")
def meter(small: Stack) -> Iterator[LoadMeter]:
    with LoadMeter(small.worker_port) as meter:
        yield meter


def test_requests_that_do_not_fit_at_once_wait_and_get_their_own_answers(
    small: Stack, meter: LoadMeter, told: Ask
) -> None:
    prompts = [(FLAT, NESTED)[number % 2] for number in range(MANY)]

    def ask(prompt: str) -> tuple[Event, str]:
        with httpx.Client(base_url=small.url, timeout=60) as client:
            events = events_of(client, prompt, max_tokens=400)
        return events[-1], Tree(events).text()

    with ThreadPoolExecutor(MANY) as pool:
        for prompt, (last, text) in zip(prompts, pool.map(ask, prompts), strict=True):
            assert last["type"] == "finish", last
            assert text == Tree(told(prompt, parallel="auto")).text()
    meter.until_idle()


def test_answers_do_not_use_up_the_pool(small: Stack, meter: LoadMeter) -> None:
    """The same answer again and again: after each one as much is free as before."""
    free = []
    with httpx.Client(base_url=small.url, timeout=60) as client:
        for _ in range(6):
            events_of(client, FLAT, parallel="serial")
            meter.until_idle()
            free.append(meter.now().kv_cells_free)
    assert free[-1] >= free[1], f"free cells after each answer: {free}"


def test_clients_that_leave_while_their_branches_wait_leave_nothing_behind(
    small: Stack, meter: LoadMeter
) -> None:
    connections = [leaving.connect(small.url, NESTED, stream=bool(n % 2)) for n in range(MANY)]
    try:
        eventually(lambda: meter.now().waiting, "branches that wait")
    finally:
        for connection in connections:
            connection.close()
    meter.until_idle()
    ready = httpx.get(f"{small.url}/ready").json()
    assert ready["running"] == 0


def test_an_answer_may_use_all_of_the_pool(small: Stack) -> None:
    """The default budget is what fits: a fork and its join must fit, too."""
    with httpx.Client(base_url=small.url, timeout=60) as client:
        for prompt in (FLAT, NESTED):
            assert whole(client, prompt)["finish_reason"] in ("stop", "length")
            spare = CELLS - events_of(client, prompt, max_tokens=1)[0]["prompt_tokens"]
            assert whole(client, prompt, max_tokens=spare)["finish_reason"] in ("stop", "length")


def test_a_prompt_that_leaves_room_for_a_few_tokens_is_answered(small: Stack) -> None:
    with httpx.Client(base_url=small.url, timeout=60) as client:
        for free in (1, 3):
            answer = whole(client, "1" * (CELLS - 2 - free))  # begin of sequence and suffix
            assert answer["events"][0]["prompt_tokens"] == CELLS - free
            assert 1 <= answer["usage"]["completion_tokens"] <= free
