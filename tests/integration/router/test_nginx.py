"""Streams through nginx: its buffers hold nothing back, and hide no client that left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.router.nginx import PROGRAM, proxied
from tests.security.serving import connected_to, post, running, until
from tests.unit.router.hand_fed import text

pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs nginx (apt-get install nginx-light)")

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
BODIES = {
    GENERATE: {"prompt": "x"},
    CHAT: {"messages": [{"role": "user", "content": "x"}], "stream": True},
}
PROTOCOL = ["", "proxy_http_version 1.1;"]


@pytest.mark.parametrize("api", [GENERATE, CHAT])
@pytest.mark.parametrize("extra", PROTOCOL, ids=["HTTP/1.0", "HTTP/1.1"])
async def test_each_event_arrives_before_the_next_one_is_made(
    tmp_path: Path, api: str, extra: str
) -> None:
    async with (
        running() as served,
        proxied(tmp_path, served.port, extra) as port,
        connected_to(port) as connection,
    ):
        await connection.send(post(api, BODIES[api], accept_encoding="gzip"))
        await until(lambda: served.link.starts)
        status, headers = await connection.head()
        assert status == 200
        assert headers["content-type"].startswith("text/event-stream")
        for letter in "abcdefgh":
            served.link.decoded(served.link.starts[0], text(letter))
            async with asyncio.timeout(5):
                while f'"{letter}"'.encode() not in await connection.reader.readline():
                    pass


async def test_a_client_that_leaves_nginx_ends_its_answer(tmp_path: Path) -> None:
    async with running() as served, proxied(tmp_path, served.port) as port:
        for stream in (True, False):
            before = len(served.link.starts)
            async with connected_to(port) as connection:
                await connection.send(post(GENERATE, {"prompt": "x", "stream": stream}))
                await until(lambda before=before: len(served.link.starts) > before)
            await until(lambda: not served.answers.running)
        assert len(served.link.aborted) == 2


async def test_a_heartbeat_keeps_a_silent_stream_open(tmp_path: Path) -> None:
    """nginx gives up on an upstream that says nothing for proxy_read_timeout, 60 s as it comes."""
    silence = "proxy_read_timeout 1s;"
    async with (
        running(heartbeat_s=0.2) as served,
        proxied(tmp_path, served.port, silence) as port,
        connected_to(port) as connection,
    ):
        await connection.send(post(GENERATE, {"prompt": "x"}, connection="close"))
        await until(lambda: served.link.starts)
        beats = 0
        async with asyncio.timeout(10):
            while beats < 10:  # two seconds
                beats += (await connection.reader.readline()).startswith(b": ")
        served.link.ended(served.link.starts[0], [served.link.model.eos[0]], "")
        assert b"event: finish" in await connection.ended()
