"""Who may call: keys in headers, over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.progress import Progress

from multiverse_cli.generate import generate_all
from multiverse_cli.stack import free_port
from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceStub
from multiverse_shared.api_keys import new_key
from tests.security.serving import Answer, Served, ask, connected, head, post, running, until

MODELS = "/v1/models"
GENERATE = "/v1/generate"


async def models(served: Served, **headers: str) -> Answer:
    return await ask(served, head(MODELS, method="GET", **headers))


async def test_a_key_lets_in_by_either_header() -> None:
    key, line = new_key("alice")
    async with running(keys=line) as served:
        for headers in (
            {"authorization": f"Bearer {key}"},
            {"authorization": f"bearer  {key}"},
            {"x_api_key": key},
            {"x_api_key": key, "authorization": "Basic abc"},
        ):
            assert (await models(served, **headers)).status == 200, headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer mv-wrong"},
        {"authorization": "Bearer "},
        {"authorization": "Basic abc"},
        {"x_api_key": "mv-wrong"},
        {"x_api_key": "x" * 20_000},
        {"x_api_key": "\xe9"},
        {"authorization": "Bearer mv-wrong", "x_api_key": "KEY"},
    ],
    ids=lambda headers: str(headers)[:40],
)
async def test_without_a_known_key_nothing_is_begun(headers: dict[str, str]) -> None:
    key, line = new_key("alice")
    headers = {name: value.replace("KEY", key) for name, value in headers.items()}
    async with running(keys=line) as served:
        answer = await ask(served, post(GENERATE, {"prompt": "x"}, **headers))
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.error["type"] == "authentication_error"
        assert answer.error["param"] == "authorization"
        assert "x-api-key" in answer.error["message"]
        assert not served.link.starts
        assert served.metric("refused_total", reason="unauthenticated") == 1
        assert served.metric("requests_total", route=GENERATE, status="4xx", model="small") == 1


async def test_a_body_without_a_key_is_not_read() -> None:
    async with running(keys=new_key("alice")[1]) as served, connected(served) as connection:
        await connection.send(head(GENERATE, content_length="1000"))
        assert (await connection.answer()).status == 401


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
async def test_what_an_operator_asks_needs_no_key(path: str) -> None:
    async with running(keys=new_key("alice")[1]) as served:
        assert (await ask(served, head(path, method="GET"))).status == 200


@pytest.mark.parametrize("path", ["/v1/models", "/openapi.json", "/docs", "/nowhere", "//health"])
async def test_everything_else_needs_one(path: str) -> None:
    async with running(keys=new_key("alice")[1]) as served:
        assert (await ask(served, head(path, method="GET"))).status == 401


async def test_without_keys_all_may_call_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(host="127.0.0.1") as served:
            assert (await models(served)).status == 200
            assert (await models(served)).status == 200
    told = [record.message for record in caplog.records if "no API keys" in record.message]
    assert len(told) == 1
    assert "127.0.0.1" in told[0]


async def test_keys_change_while_the_router_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiverse_shared.api_keys.LOOK_EVERY_S", 0.0)
    (old, old_line), (new, new_line) = new_key("alice"), new_key("alice")
    file = tmp_path / "keys"
    file.write_text(old_line)
    async with running(keys_file=file) as served:

        async def statuses() -> list[int]:
            return [(await models(served, x_api_key=key)).status for key in (old, new)]

        assert await statuses() == [200, 401]
        file.write_text(f"# both, for a day\n{old_line}\n{new_line}\n")
        assert await statuses() == [200, 200]
        file.write_text(new_line)
        os.utime(file, (1, 1))  # also when it is put back in time
        assert await statuses() == [401, 200]
        file.write_text("nonsense")
        assert await statuses() == [401, 200]
        file.unlink()
        assert await statuses() == [401, 200]
        file.write_text("")
        assert await statuses() == [401, 401]


async def test_a_tenant_has_as_many_answers_in_flight_as_its_keys_allow() -> None:
    (alice, first), (other, second), (bob, third) = (
        new_key("alice", concurrency=2),
        new_key("alice", concurrency=2),
        new_key("bob"),
    )
    async with running(keys=",".join([first, second, third])) as served:

        async def begin(key: str) -> asyncio.Task[Answer]:
            before = len(served.link.starts)
            body = {"prompt": "x", "stream": False}
            task = asyncio.create_task(ask(served, post(GENERATE, body, x_api_key=key)))
            await until(lambda: len(served.link.starts) > before or task.done())
            return task

        running_now = [await begin(alice), await begin(other)]
        for stream in (True, False):
            body = {"prompt": "x", "stream": stream}
            refused = await ask(served, post(GENERATE, body, x_api_key=alice))
            assert refused.status == 429
            assert refused.headers["retry-after"]
            assert "alice" in refused.error["message"]
        await begin(bob)
        assert len(served.link.starts) == 3
        running_now[0].cancel()
        await until(lambda: served.answers.running == 2)
        await begin(alice)
        assert len(served.link.starts) == 4


async def test_tokens_of_a_minute_are_reserved_and_what_was_not_used_is_given_back() -> None:
    key, line = new_key("alice", tokens=100)
    asked = post(GENERATE, {"prompt": "x", "max_tokens": 60, "stream": False}, x_api_key=key)
    async with running(keys=line) as served:
        first = asyncio.create_task(ask(served, asked))
        await until(lambda: len(served.link.starts) == 1)
        refused = await ask(served, asked)
        assert refused.status == 429
        assert "100 tokens a minute" in refused.error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        served.link.ended(served.link.starts[0], [served.link.model.eos[0]], "")
        assert (await first).status == 200
        again = asyncio.create_task(ask(served, asked))
        await until(lambda: len(served.link.starts) == 2)
        again.cancel()


async def test_requests_of_a_minute_are_counted_and_who_waits_is_told_how_long() -> None:
    key, line = new_key("alice", requests=2)
    asked = post(GENERATE, {"prompt": "x", "stream": False}, x_api_key=key)
    async with running(keys=line) as served:
        for number in (1, 2):
            answer = asyncio.create_task(ask(served, asked))
            await until(lambda number=number: len(served.link.starts) == number)
            served.link.ended(served.link.starts[-1], [served.link.model.eos[0]], "")
            assert (await answer).status == 200
        refused = await ask(served, asked)
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 30


async def test_an_answer_knows_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    key, line = new_key("alice")
    async with running(keys=line) as served:
        check = served.answers._check
        monkeypatch.setattr(
            served.answers, "_check", lambda wanted: (seen.append(wanted.tenant), check(wanted))
        )
        for path, body in (
            (GENERATE, {"prompt": "x"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ):
            async with connected(served) as connection:
                await connection.send(post(path, body, x_api_key=key))
                await until(lambda: served.answers.running)
            await until(lambda: not served.answers.running)
    assert seen == ["alice", "alice"]


async def test_keys_stand_in_no_log_and_in_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    key, line = new_key("alice")
    with caplog.at_level(logging.DEBUG):
        async with running(keys=line, access_log=True) as served:
            answers = [
                await models(served, x_api_key=key),
                await models(served, x_api_key=key + "x"),
                await ask(served, post(GENERATE, {}, authorization=f"Bearer {key}")),
            ]
    assert key not in caplog.text
    assert key not in json.dumps([answer.body.decode() for answer in answers])


async def test_a_grpc_call_needs_the_same_key() -> None:
    key, line = new_key("alice", concurrency=1)
    port = free_port()
    async with (
        running(keys=line, grpc_port=port) as served,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = GenerateServiceStub(channel)
        for metadata in ((), (("x-api-key", "mv-wrong"),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Generate(pb.GenerateRequest(prompt="x"), metadata=metadata).read()
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not served.link.starts
        bearer = (("authorization", f"Bearer {key}"),)
        call = stub.Generate(pb.GenerateRequest(prompt="x"), metadata=bearer)
        assert (await call.read()).WhichOneof("event") == "start"
        other = stub.Generate(pb.GenerateRequest(prompt="x"), metadata=bearer)
        with pytest.raises(grpc.aio.AioRpcError) as full:
            await other.read()
        assert full.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "alice" in full.value.details()
        call.cancel()
        await until(lambda: not served.answers.running)


async def test_the_command_sends_the_key_of_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, line = new_key("alice")
    async with running(keys=line) as served:

        async def generate() -> dict[str, Any]:
            out, url = StringIO(), f"http://127.0.0.1:{served.port}"
            await generate_all(url, ["x"], {}, 1, out, Progress(disable=True))
            row: dict[str, Any] = json.loads(out.getvalue())
            return row

        assert "API key" in str((await generate())["error"])
        monkeypatch.setenv("MULTIVERSE_API_KEY", key)
        generating = asyncio.create_task(generate())
        await until(lambda: served.link.starts)
        served.link.ended(served.link.starts[0], [served.link.model.eos[0]], "")
        assert "error" not in await generating
