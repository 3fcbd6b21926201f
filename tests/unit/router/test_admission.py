"""What is refused before anything starts, streamed or not, and what is told when it comes late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI

from multiverse_router.answers import Answers
from multiverse_shared.errors import STATUSES
from tests.unit.router.app import SEAL, application, post
from tests.unit.router.asgi import Client, request, until
from tests.unit.router.hand_fed import HandFedLink, admissions, text
from tests.unit.router.hand_fed import request as hand_fed_request
from tests.unit.router.served import EOS, served_model, tokenizer

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
TOO_LARGE = {GENERATE: "request_too_large", CHAT: "context_length_exceeded"}
KINDS = {status.kind for status in STATUSES.values()}
APIS = pytest.mark.parametrize("path", [GENERATE, CHAT])
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def body(path: str, content: str = "x", **fields: Any) -> dict[str, Any]:
    own = {"prompt": content} if path == GENERATE else {"messages": [user(content)]}
    return {**own, **fields}


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


@asynccontextmanager
async def in_flight(app: FastAPI, link: HandFedLink) -> AsyncIterator[Client]:
    """One request that the worker has begun."""
    client = Client(json.dumps(body(GENERATE)).encode())
    before = len(link.starts)
    task = asyncio.create_task(request(app, client, "POST", GENERATE))
    await until(lambda: len(link.starts) > before)
    try:
        yield client
    finally:
        client.leave()
        await task


async def let_in(app: FastAPI, path: str) -> tuple[Client, asyncio.Task[None]]:
    """A stream whose status line is on its way; its client takes nothing yet."""
    client = Client(json.dumps(body(path, stream=True)).encode())
    client.takes.clear()
    task = asyncio.create_task(request(app, client, "POST", path))
    await until(lambda: client.offered)
    return client, task


@APIS
@STREAMED
async def test_one_request_too_many_is_refused_with_429(path: str, stream: bool) -> None:
    link = HandFedLink()
    app = application(link, max_requests=1)
    async with in_flight(app, link):
        async with asyncio.timeout(2):
            client = await post(app, path, body(path, stream=stream))
        assert client.status == 429
        assert client.headers["retry-after"]
        assert len(link.starts) == 1


@APIS
@STREAMED
async def test_a_budget_that_no_pool_could_hold_is_refused(path: str, stream: bool) -> None:
    link = HandFedLink()
    async with asyncio.timeout(2):
        client = await post(application(link), path, body(path, stream=stream, max_tokens=10**12))
    assert client.status == (413 if path == GENERATE else 400)
    assert client.error["code"] == TOO_LARGE[path]
    assert client.error["param"] == "max_tokens"
    assert not link.starts


@APIS
@STREAMED
async def test_a_prompt_longer_than_the_context_is_refused(path: str, stream: bool) -> None:
    link = HandFedLink(served_model(context_length=40))
    async with asyncio.timeout(2):
        client = await post(application(link), path, body(path, "q" * 60, stream=stream))
    assert client.status == (413 if path == GENERATE else 400)
    assert client.error["code"] == TOO_LARGE[path]
    assert "60" not in client.error["param"]
    assert not link.starts


@APIS
async def test_a_worker_lost_between_check_and_start_is_told_in_the_stream(path: str) -> None:
    """The status line is out by then: only an error event can say it."""
    link = HandFedLink()
    client, task = await let_in(application(link), path)
    link.lose()
    client.takes.set()
    await task
    last = client.body.strip().split("\n\n")[-1]
    assert last.startswith("event: error\ndata: ")
    assert "worker_unavailable" in last
    assert client.complete


@APIS
async def test_an_answer_let_in_before_the_router_ends_is_begun_and_finished(path: str) -> None:
    """The status line is out: it counts as running, though its worker has heard nothing yet."""
    link = HandFedLink()
    app = application(link)
    client, task = await let_in(app, path)
    app.state.answers.closing = True
    client.takes.set()
    await until(lambda: link.starts)
    link.ended(link.starts[0], [*text("x"), tokenizer().token_id(EOS) or 0], "root")
    await task
    assert "event: error" not in client.body
    assert client.complete
    assert (await post(app, path, body(path))).status == 503
    assert len(link.starts) == 1


@APIS
async def test_nothing_is_begun_once_running_answers_are_ended(path: str) -> None:
    link = HandFedLink()
    app = application(link)
    client, task = await let_in(app, path)
    app.state.answers.end_all()
    client.takes.set()
    await task
    assert "shutting down" in client.body.strip().split("\n\n")[-1]
    assert link.branches == 0


@APIS
async def test_a_failure_in_the_midst_of_a_stream_is_its_last_event(path: str) -> None:
    link = HandFedLink()
    client = Client(json.dumps(body(path, stream=True)).encode())
    task = asyncio.create_task(request(application(link), client, "POST", path))
    await until(lambda: link.starts)
    link.failed(link.starts[0], "INTERNAL", "the engine broke")
    await task
    last = client.body.strip().split("\n\n")[-1]
    assert last.startswith("event: error\n")
    assert "the engine broke" in last
    assert "[DONE]" not in client.body
    assert client.complete


@APIS
@pytest.mark.parametrize(
    ("code", "status"), [("RESOURCE_EXHAUSTED", 429), ("UNAVAILABLE", 503), ("INTERNAL", 500)]
)
async def test_a_failure_of_a_whole_answer_has_the_status_of_its_error(
    path: str, code: str, status: int
) -> None:
    link = HandFedLink()
    client = Client(json.dumps(body(path, stream=False)).encode())
    task = asyncio.create_task(request(application(link), client, "POST", path))
    await until(lambda: link.starts)
    link.failed(link.starts[0], code, "why")
    await task
    assert client.status == status
    assert client.error["message"] == "why"
    assert client.error["type"] in {*KINDS, "requests", "server_error"}


@APIS
@STREAMED
async def test_a_client_that_leaves_ends_its_branches(path: str, stream: bool) -> None:
    link = HandFedLink()
    app = application(link, max_requests=1)
    client = Client(json.dumps(body(path, stream=stream)).encode())
    task = asyncio.create_task(request(app, client, "POST", path))
    await until(lambda: link.starts)
    client.leave()
    await task
    assert link.aborted == {link.starts[0].branch}
    assert link.branches == 0
    async with in_flight(app, link):  # its place is free again
        assert len(link.starts) == 2


async def test_a_prompt_is_not_run_on_another_model_than_it_was_encoded_for() -> None:
    link = HandFedLink()
    answers = Answers(link.fleet, admissions(8), SEAL)
    stale = replace(hand_fed_request(), model_digest="older")
    async with answers.answer(stale) as events:
        told = [event async for event in events]
    assert [event.type for event in told] == ["error"]
    assert "another model" in told[0].message
    assert link.starts == []
    assert answers.running == 0
