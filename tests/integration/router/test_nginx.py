"""Streams through nginx: its buffers hold nothing back, and hide no client that left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.router.nginx import proxied
from tests.security.serving import Connection, Served, connected_to, post, running, until
from tests.unit.router.hand_fed import text

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
BODIES: dict[str, dict[str, Any]] = {
    GENERATE: {"prompt": "x"},
    CHAT: {"messages": [{"role": "user", "content": "x"}], "stream": True},
}
BEAT_S, NEVER_S = 0.2, 3600.0
SILENCE_S = 4  # so long nginx waits: a machine that is busy must not keep a beat for as long
WITHIN_S = 90.0
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


async def test_a_heartbeat_keeps_a_silent_stream_open(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """nginx gives up on an upstream that says nothing for proxy_read_timeout, 60 s as it comes.

    What is waited for is that it does: by then the stream that beats is older than the time-out.
    """
    one, other = tmp_path_factory.mktemp("beats"), tmp_path_factory.mktemp("silent")
    async with beating(one, BEAT_S) as (beats, kept):
        await begun(beats, kept)
        async with beating(other, NEVER_S) as (silent, lost):
            await begun(silent, lost)
            assert b"event: finish" not in await lost.ended(WITHIN_S)
            await until(lambda: not silent.answers.running, WITHIN_S)
        assert beats.answers.running == 1
        beats.link.ended(beats.link.starts[0], [beats.link.model.eos[0]], "")
        told = await kept.ended(WITHIN_S)
        assert told.count(b"\n: ") > SILENCE_S / BEAT_S / 2
        assert b"event: finish" in told


@asynccontextmanager
async def beating(folder: Path, every_s: float) -> AsyncIterator[tuple[Served, Connection]]:
    """A router behind an nginx without patience, and a connection to it."""
    patience = f"proxy_read_timeout {SILENCE_S}s;"
    async with (
        running(heartbeat_s=every_s) as served,
        proxied(folder, served.port, patience) as port,
        connected_to(port) as connection,
    ):
        yield served, connection


async def begun(served: Served, connection: Connection) -> None:
    """A stream that has said nothing but its beginning."""
    await connection.send(post(GENERATE, {"prompt": "x"}, connection="close"))
    await until(lambda: served.link.starts)
    await connection.head()
