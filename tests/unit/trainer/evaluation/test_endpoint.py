"""Asking a server over real HTTP: what is sent, what is read, what is asked again."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from multiverse_trainer.evaluation.endpoint import OpenAiEndpoint, Reply, Unanswered, Way

WAY = Way("auto", {"parallel": "auto"}, max_tokens=7, temperature=0.5)
DONE = {"choices": [{"message": {"content": "#1"}, "finish_reason": "stop"}]}


class Server:
    """Answers with the given (status, body) pairs in turn, the last one for ever."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self._answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("authorization"))
        status, body = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        text = body if isinstance(body, str) else json.dumps(body)
        return Response(text, status, media_type="application/json")


@asynccontextmanager
async def serving(*answers: tuple[int, Any]) -> AsyncIterator[Server]:
    server, app = Server(*answers), FastAPI()
    app.add_api_route("/v1/chat/completions", server.answer, methods=["POST"])
    listening = socket.create_server(("127.0.0.1", 0))  # connections wait until it is up
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve([listening]))
    try:
        yield server
    finally:
        running.should_exit = True
        await task
        listening.close()


def endpoint(url: str, **options: Any) -> OpenAiEndpoint:
    return OpenAiEndpoint(url, first_wait_s=0.001, **options)


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_the_question_is_asked_as_a_chat(suffix: str) -> None:
    async with (
        serving((200, DONE)) as server,
        endpoint(server.url + suffix, model="m", api_key="k") as asked,
    ):
        reply = await asked.ask(WAY, "1+0?", 3)
    assert (reply.text, reply.finish_reason, reply.critical) == ("#1", "stop", None)
    assert server.keys == ["Bearer k"]
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "1+0?"}],
            "max_tokens": 7,
            "temperature": 0.5,
            "top_p": 1.0,
            "seed": 3,
            "multiverse": {"tags": "keep", "parallel": "auto"},
        }
    ]


async def test_other_servers_get_openais_fields_only() -> None:
    async with serving((200, DONE)) as server, endpoint(server.url) as asked:
        await asked.ask(Way("plain"), "?", 0)
    assert not {"multiverse", "model"} & server.bodies[0].keys()


async def test_what_our_server_says_of_its_answer_is_kept() -> None:
    body = {
        "choices": [
            {
                "message": {"reasoning_content": "<Think>so</Think>", "content": "#1"},
                "finish_reason": "length",
            }
        ],
        "usage": {"completion_tokens": 12},
        "multiverse": {"critical_path_tokens": 5, "irregular": {"stray_tag": 1}},
    }
    async with serving((200, body)) as server, endpoint(server.url) as asked:
        reply = await asked.ask(WAY, "?", 0)
    assert reply == Reply("<Think>so</Think>#1", "length", 12, reply.seconds, 5, {"stray_tag": 1})
    assert not reply.ended


async def test_a_busy_server_is_asked_again() -> None:
    async with (
        serving((503, "no"), (429, "no"), (200, DONE)) as server,
        endpoint(server.url) as asked,
    ):
        assert (await asked.ask(WAY, "?", 0)).text == "#1"
    assert len(server.bodies) == 3


async def test_a_server_that_stays_busy_is_given_up() -> None:
    async with serving((503, "overloaded")) as server, endpoint(server.url, attempts=3) as asked:
        with pytest.raises(Unanswered, match="503: overloaded"):
            await asked.ask(WAY, "?", 0)
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [400, 401, 422])
async def test_a_refusal_is_not_asked_again(status: int) -> None:
    async with serving((status, "bad field")) as server, endpoint(server.url) as asked:
        with pytest.raises(Unanswered, match=f"{status}: bad field"):
            await asked.ask(WAY, "?", 0)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("body", ["", "{", "[]", {}, {"choices": []}, {"choices": [{}]}])
async def test_what_is_no_completion_is_no_answer(body: Any) -> None:
    async with serving((200, body)) as server, endpoint(server.url) as asked:
        with pytest.raises(Unanswered, match="not a chat completion"):
            await asked.ask(WAY, "?", 0)


async def test_nobody_at_the_address_is_no_answer() -> None:
    async with serving((200, DONE)) as server:
        url = server.url
    async with endpoint(url, attempts=2) as asked:
        with pytest.raises(Unanswered, match="ConnectError"):
            await asked.ask(WAY, "?", 0)
