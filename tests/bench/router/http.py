"""A load over HTTP: server-sent events, read from plain sockets with as little work as may be."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

from tests.bench.router.load import Answer, Ask, Connect

TIMEOUT_S = 300.0
PROMPT = "sum a:7+5-3+2,b:4+9-2+5,c:8-3+6+1,?"
_USAGE = re.compile(rb'"completion_tokens": ?(\d+)')
_TAIL = 1024  # bytes, with the usage in them
_END = b"0\r\n\r\n"  # of a chunked body; events end in "\n\n\r\n", so it can't stand elsewhere


class BenchError(Exception):
    """An answer was not what the load needs."""


class Stream(asyncio.Protocol):
    """One kept-open connection. The first token is in the event number `first_event`."""

    def __init__(self, first_event: int) -> None:
        self._first_event = first_event
        self._transport: asyncio.Transport
        self._answer: Answer
        self._events = 0
        self._begun = False
        self._tail = b""
        self._done: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def ask(self, request: bytes, answer: Answer) -> bytes:
        """The last bytes of the answer."""
        self._answer, self._events, self._begun, self._tail = answer, 0, False, b""
        self._done = asyncio.get_running_loop().create_future()
        answer.sent = time.monotonic()
        self._transport.write(request)
        async with asyncio.timeout(TIMEOUT_S):
            return await self._done

    def data_received(self, data: bytes) -> None:
        if not self._begun and not data.startswith(b"HTTP/1.1 200"):
            self._fail(f"refused: {data!r}")
            return
        self._begun = True
        if not self._answer.first:
            self._events += data.count(b"data: ")
            if self._events >= self._first_event:
                self._answer.first = time.monotonic()
        self._tail = (self._tail + data)[-_TAIL:]
        if data.endswith(_END) and self._done:
            self._done.set_result(self._tail)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection broke: {exc}")

    def _fail(self, reason: str) -> None:
        if self._done and not self._done.done():
            self._done.set_exception(BenchError(reason))


def connector(port: int, path: str, body: dict[str, Any]) -> Connect:
    """Connections to one server. The first event of both APIs has no token (`start`, the role)."""

    async def connect() -> Ask:
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(lambda: Stream(2), "127.0.0.1", port)

        async def ask(answer: Answer) -> None:
            filled = {**body, "seed": answer.seed, "stream": True}
            end = await stream.ask(_request(path, filled), answer)
            usage = _USAGE.search(end)
            if usage is None:
                raise BenchError(f"{path}: an answer ended in {end[-400:]!r}")
            answer.tokens = int(usage[1])

        return ask

    return connect


def generate(port: int, tokens: int, prompt: str = PROMPT) -> Connect:
    return connector(port, "/v1/generate", {"prompt": prompt, "max_tokens": tokens})


def chat(port: int, tokens: int, model: str) -> Connect:
    body = {
        "model": model,
        "max_tokens": tokens,
        "messages": [{"role": "user", "content": PROMPT}],
        "stream_options": {"include_usage": True},
    }
    return connector(port, "/v1/chat/completions", body)


def _request(path: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data
