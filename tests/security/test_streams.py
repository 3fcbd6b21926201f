"""Streams over real sockets: signs of life, readers that stall, ids, deadlines, the end."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from multiverse_router.api.streaming import HEARTBEAT
from multiverse_router.settings import RouterSettings
from multiverse_shared.dialect import Tag
from tests.security.serving import (
    Connection,
    HandFedLink,
    Served,
    ask,
    connected,
    head,
    post,
    running,
    until,
)
from tests.unit.router.hand_fed import path, plan, tag, text
from tests.unit.router.served import served_model

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
BODIES: dict[str, dict[str, Any]] = {
    GENERATE: {"prompt": "x"},
    CHAT: {"messages": [{"role": "user", "content": "x"}], "stream": True},
}
APIS = pytest.mark.parametrize("api", [GENERATE, CHAT])


async def begin(served: Served, connection: Connection, api: str, **headers: str) -> Any:
    """Send a streamed request; the branch that the worker was told to start."""
    before = len(served.link.starts)
    await connection.send(post(api, BODIES[api], **headers))
    await until(lambda: len(served.link.starts) > before)
    return served.link.starts[-1]


async def rest(connection: Connection) -> str:
    async with asyncio.timeout(10):
        return b"".join([piece async for piece in connection.chunks()]).decode()


@APIS
async def test_a_stream_in_which_nothing_is_said_gives_signs_of_life(api: str) -> None:
    """Queued, too: the worker has said nothing of this request yet."""
    async with running(heartbeat_s=0.05) as served, connected(served) as connection:
        start = await begin(served, connection, api)
        await connection.head()
        beats = 0
        async with asyncio.timeout(10):
            async for piece in connection.chunks():
                beats += piece.decode() == HEARTBEAT
                if beats == 3:
                    served.link.ended(start, [*text("done"), served.link.model.eos[0]], "")
                    break
        events = [line for line in (await rest(connection)).split("\n\n") if line]
        assert "finish" in events[-1] or "[DONE]" in events[-1]
        assert all(e.startswith((": ", "data: ", "event: ")) for e in events)


async def test_no_heartbeat_while_events_come() -> None:
    async with running(heartbeat_s=30) as served, connected(served) as connection:
        start = await begin(served, connection, GENERATE)
        await connection.head()
        served.link.ended(start, [*text("done"), served.link.model.eos[0]], "")
        assert HEARTBEAT not in await rest(connection)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_reader_that_stalls_is_cut_with_bytes_under_way(stream: bool) -> None:
    """Closing the connection would wait until it reads."""
    link = HandFedLink(served_model(context_length=1 << 16, kv_cells=1 << 16))
    async with running(link, stalled_reader_s=0.2) as served, stalling(served.port) as client:
        body = {"prompt": "x", "max_tokens": 9000, "logprobs": True, "stream": stream}
        await asyncio.get_running_loop().sock_sendall(client, post(GENERATE, body))
        await until(lambda: link.starts)
        (protocol,) = served.server.server_state.connections
        small(protocol.transport.get_extra_info("socket"))
        for _ in range(40):
            link.decoded(link.starts[0], text("word") * 50)
        if not stream:
            link.ended(link.starts[0], [link.model.eos[0]], "")
        await until(lambda: not served.answers.running)
        await until(lambda: not served.server.server_state.connections)
        assert served.metric("left_total", how="stalled") == (1 if stream else 0)
        assert link.aborted == ({link.starts[0].branch} if stream else set())


async def test_a_reader_that_stalls_between_two_events_is_cut_by_a_heartbeat() -> None:
    link = HandFedLink(served_model(context_length=1 << 16, kv_cells=1 << 16))
    settings = {"stalled_reader_s": 0.2, "heartbeat_s": 0.05}
    async with running(link, **settings) as served, stalling(served.port) as client:
        body = {"prompt": "x", "max_tokens": 9000, "logprobs": True}
        await asyncio.get_running_loop().sock_sendall(client, post(GENERATE, body))
        await until(lambda: link.starts)
        (protocol,) = served.server.server_state.connections
        small(protocol.transport.get_extra_info("socket"))
        protocol.transport.write(b"y" * 200_000)  # as if told in one event
        await until(lambda: not served.answers.running)
        await until(lambda: served.metric("left_total", how="stalled") == 1)


def small(side: socket.socket) -> None:
    """Let the kernel hold little for this end of a connection."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        side.setsockopt(socket.SOL_SOCKET, option, 4096)


@asynccontextmanager
async def stalling(port: int) -> AsyncIterator[socket.socket]:
    """The socket of a client that reads nothing."""
    with socket.socket() as client:
        small(client)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        yield client


@APIS
async def test_a_client_that_leaves_ends_its_answer(api: str) -> None:
    async with running() as served:
        for number in range(20):
            async with connected(served) as connection:
                await begin(served, connection, api)
            await until(lambda: not served.answers.running)
            assert len(served.link.aborted) == number + 1
        await until(lambda: served.metric("left_total", how="client") == 20)
        assert served.metric("answers_total", model="small", end="left") == 20


async def test_a_request_id_goes_in_and_out() -> None:
    async with running() as served:
        for given in ("abc-1.2_3:4", "x" * 64):
            answer = await ask(served, head("/health", method="GET", x_request_id=given))
            assert answer.headers["x-request-id"] == given
        for given in ("", "x" * 65, "a b", "a\x1b[2J", "caf\xe9", '"', "a;b"):
            answer = await ask(served, head("/health", method="GET", x_request_id=given))
            made = answer.headers["x-request-id"]
            assert made != given
            assert len(made) == 32


@pytest.mark.parametrize("api", [GENERATE, CHAT])
async def test_a_deadline_comes_by_header_too(api: str) -> None:
    async with running() as served, connected(served) as connection:
        await begin(served, connection, api, x_deadline_s="0.2")
        await connection.head()
        said = await rest(connection)
        assert "deadline" in said
        assert not served.answers.running


async def test_the_shorter_deadline_counts() -> None:
    async with running() as served, connected(served) as connection:
        body = {"prompt": "x", "deadline_s": 0.1}
        await connection.send(post(GENERATE, body, x_deadline_s="60"))
        await connection.head()
        assert '"deadline"' in await rest(connection)


@pytest.mark.parametrize("given", ["", "soon", "0", "-1", "nan", "inf", "1e9"])
async def test_a_deadline_that_is_none_is_refused(given: str) -> None:
    async with running() as served:
        answer = await ask(served, post(GENERATE, {"prompt": "x"}, x_deadline_s=given))
        assert answer.status == 400
        assert answer.error["param"] == "x-deadline-s"
        assert not served.link.starts


async def test_the_access_log_has_a_line_for_each_request_and_no_prompt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="multiverse_router.access"):
        async with running() as served:
            await ask(served, post(GENERATE, {"prompt": "a secret", "top_k": -1}, x_request_id="r"))
            async with connected(served) as connection:
                await begin(served, connection, GENERATE)
            await until(lambda: not served.answers.running)
            await until(lambda: len(_lines(caplog)) == 2)
    first, second = _lines(caplog)
    assert (first["request_id"], first["status"], first["path"]) == ("r", 422, GENERATE)
    assert second["left"] == "client"
    assert second["answers"][0].startswith("gen-")
    assert "secret" not in caplog.text


async def test_prompts_are_logged_only_where_the_settings_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="multiverse_router.access"):
        async with running(log_prompts=True) as served:
            await ask(served, post(GENERATE, {"prompt": "no secret", "top_k": -1}))
    assert "no secret" in _lines(caplog)[0]["body"]


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(r.message) for r in caplog.records if r.name == "multiverse_router.access"]


async def test_other_origins_may_not_call_unless_the_settings_name_them() -> None:
    preflight = head(
        GENERATE,
        method="OPTIONS",
        origin="https://app.example",
        access_control_request_method="POST",
        access_control_request_headers="authorization,content-type",
    )
    async with running() as served:
        assert "access-control-allow-origin" not in (await ask(served, preflight)).headers
    async with running(cors_origins="https://app.example") as served:
        answer = await ask(served, preflight)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        other = preflight.replace(b"app.example", b"evil.example")
        assert "access-control-allow-origin" not in (await ask(served, other)).headers


@APIS
async def test_a_router_that_ends_refuses_what_is_new_and_lets_running_answers_end(
    api: str,
) -> None:
    async with running(shutdown_grace_s=30) as served, AsyncExitStack() as stack:
        live = await stack.enter_async_context(connected(served))
        start = await begin(served, live, api)
        idle = await stack.enter_async_context(connected(served))
        await idle.send(head("/health", method="GET"))
        await idle.answer()
        served.server.handle_exit(15, None)
        served.server._captured_signals.clear()
        await idle.send(post(api, BODIES[api]))
        refusals = [await idle.answer(), await ask(served, post(api, BODIES[api]))]
        refusals.append(await ask(served, head("/ready", method="GET")))
        for refused in refusals:
            assert refused.status == 503, refused
        assert all(refused.headers["retry-after"] for refused in refusals[:2])
        assert (await ask(served, head("/health", method="GET"))).status == 200
        served.link.ended(start, [*text("done"), served.link.model.eos[0]], "")
        await live.head()
        said = await rest(live)
        assert "event: error" not in said
        assert "finish" in said or "[DONE]" in said
        await live.ended()


@APIS
async def test_what_still_runs_after_the_grace_time_is_told_so(api: str) -> None:
    async with running(shutdown_grace_s=0.2) as served, connected(served) as connection:
        await begin(served, connection, api)
        served.server.should_exit = True
        await connection.head()
        said = (await rest(connection)).strip().split("\n\n")  # a whole body: no silent cut
        assert said[-1].startswith("event: error")
        assert "shutting down" in said[-1]
        assert not any("[DONE]" in event for event in said)
        await until(lambda: not served.answers.running)
        assert served.link.aborted == {served.link.starts[0].branch}


async def test_a_whole_answer_that_is_ended_gets_503() -> None:
    async with running(shutdown_grace_s=0.2) as served, connected(served) as connection:
        await connection.send(post(GENERATE, {"prompt": "x", "stream": False}))
        await until(lambda: served.link.starts)
        served.server.should_exit = True
        answer = await connection.answer()
        assert answer.status == 503
        assert answer.headers["retry-after"]


async def test_metrics_agree_with_the_usage_that_was_told() -> None:
    async with running() as served, connected(served) as connection:
        link = served.link
        root = await begin(served, connection, GENERATE)
        link.ended(root, plan("a", "b"), "root")
        await until(lambda: len(link.starts) == 3)
        link.ended(link.starts[1], path("one"), "one")
        link.decoded(link.starts[2], text("two"))
        link.ended(link.starts[2], [tag(Tag.PATH_CLOSE)], "two")
        await until(lambda: len(link.starts) == 4)
        end = [*text("both"), tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE), link.model.eos[0]]
        link.ended(link.starts[3], end, "")
        await connection.head()
        said = (await rest(connection)).strip().split("\n\n")
        events = [json.loads(event.partition("data: ")[2]) for event in said]
        usage = next(event for event in events if event["type"] == "usage")
        await until(lambda: not served.answers.running)
        tokens = {
            kind: served.metric("tokens_total", model="small", kind=kind)
            for kind in ("prompt", "completion", "written", "cached", "reused")
        }
        assert tokens == {kind: usage[f"{kind}_tokens"] for kind in tokens}
        model = {"model": "small"}
        assert served.metric("answers_total", **model, end="stop") == 1
        assert served.metric("answers_forked_total", **model) == 1
        assert served.metric("forks_total", **model) == 1
        assert served.metric("path_ends_total", **model, reason="stop") == 2
        assert served.metric("parallelism_sum", **model) == usage["parallelism"]
        assert served.metric("time_to_first_token_seconds_count", **model) == 1
        assert served.metric("time_per_output_token_seconds_count", **model) == 1
        text_form = (await ask(served, head("/metrics", method="GET"))).body.decode()
        assert "multiverse_router_answers_in_flight 0.0" in text_form
        assert "multiverse_router_worker_connected 1.0" in text_form


async def test_in_flight_is_exactly_zero_after_ends_of_every_kind() -> None:
    async with running() as served:
        link = served.link
        for number in range(60):
            async with connected(served) as connection:
                api = (GENERATE, CHAT)[number % 2]
                stream = {"stream": number % 3 != 0}
                before = len(link.starts)
                await connection.send(post(api, {**BODIES[api], **stream}))
                await until(lambda before=before: len(link.starts) > before)
                assert served.metric("answers_in_flight") == 1
                match number % 4:
                    case 0:
                        link.ended(link.starts[-1], [*text("x"), link.model.eos[0]], "")
                        await connection.answer()
                    case 1:
                        link.failed(link.starts[-1], "INTERNAL")
                        await connection.answer()
                    case 2:
                        link.decoded(link.starts[-1], text("x"))
            await until(lambda: served.metric("answers_in_flight") == 0)
        assert link.branches == 0
        ends = {
            end: served.metric("answers_total", model="small", end=end)
            for end in ("stop", "internal_error", "left")
        }
        assert ends == {"stop": 15, "internal_error": 15, "left": 30}


async def test_metrics_may_have_a_port_of_their_own() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with running(metrics_port=port) as served:
        assert (await ask(served, head("/metrics", method="GET"))).status == 404
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert b"multiverse_router_answers_in_flight 0.0" in await reader.read()
        writer.close()


async def test_a_prompt_over_the_servers_limit_is_refused() -> None:
    async with running(most_prompt_tokens=20) as served:
        answer = await ask(served, post(GENERATE, {"prompt": "x" * 100}))
        assert answer.status == 413
        assert answer.error["param"] == "prompt"
        assert "20" in answer.error["message"]


async def test_a_connection_without_a_request_is_closed_later_than_proxies_let_go_of_one() -> None:
    assert RouterSettings().idle_connection_s > 60
    async with running(idle_connection_s=1) as served, connected(served) as connection:
        for _ in range(2):  # the second one on what was kept open
            await connection.send(head("/health", method="GET"))
            assert (await connection.answer()).status == 200
        assert await connection.ended() == b""
