"""A router and a worker as processes of their own, on the small model of the repository."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from multiverse_cli.stack import Stack
from tests.e2e.answers import Event, chat, events_of, whole
from tests.e2e.load import LoadMeter
from tests.e2e.processes import BreakableStack

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
T = TypeVar("T")
EXACT = {"kv_type": "f32", "flash_attention": "false"}  # greedy is exact, whatever the batch


@pytest.fixture(scope="session")
def model() -> Path:
    return MODEL


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack(MODEL, worker_settings=EXACT) as running:
        yield running


@pytest.fixture(scope="session")
def client(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.url, timeout=60) as shared:
        yield shared


@pytest.fixture(scope="session")
def load(stack: Stack) -> Iterator[LoadMeter]:
    with LoadMeter(stack.worker_port) as meter:
        yield meter


def once(ask: Callable[..., T], client: httpx.Client) -> Callable[..., T]:
    """`ask`, which asks the same question only once."""
    known: dict[str, T] = {}

    def told(prompt: str, **options: Any) -> T:
        question = json.dumps([prompt, options], sort_keys=True)
        if question not in known:
            known[question] = ask(client, prompt, **options)
        return known[question]

    return told


@pytest.fixture(scope="session")
def told(client: httpx.Client) -> Callable[..., list[Event]]:
    """Events of an answer."""
    return once(events_of, client)


@pytest.fixture(scope="session")
def told_whole(client: httpx.Client) -> Callable[..., dict[str, Any]]:
    """An answer as one JSON object."""
    return once(whole, client)


@pytest.fixture(scope="session")
def told_chat(client: httpx.Client) -> Callable[..., dict[str, Any]]:
    """A completion of the OpenAI-compatible API."""
    return once(chat, client)


@pytest.fixture(scope="session")
def _breakable() -> Iterator[BreakableStack]:
    lonely = {"reroute_s": "0"}  # there is no other worker to wait for
    with BreakableStack(MODEL, worker_settings=EXACT, router_settings=lonely) as running:
        yield running


@pytest.fixture
def breakable(_breakable: BreakableStack) -> BreakableStack:
    """A stack whose processes a test may end."""
    _breakable.heal()
    return _breakable
