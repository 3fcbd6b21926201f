"""A router on a real socket, its worker played by hand; and a client that sends bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from multiverse_router.answers import Answers
from multiverse_router.app import create_app
from multiverse_router.server import RouterServer
from multiverse_router.settings import RouterSettings
from tests.unit.router.hand_fed import HandFedLink

DEADLINE_S = 10.0
JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Served:
    """What runs, and where."""

    port: int
    link: HandFedLink
    server: RouterServer
    answers: Answers

    def metric(self, name: str, **labels: str) -> float:
        """A sample of the router's metrics; 0 when there is none yet."""
        value = self.answers.metrics.registry.get_sample_value(f"multiverse_router_{name}", labels)
        return value or 0.0


class Server(RouterServer):
    """Takes no signals, says when it listens, and looks often whether it is to end."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # noqa: ASYNC110 - the library sets a flag
            await asyncio.sleep(0.01)

    async def start(self) -> asyncio.Task[None]:
        serving = asyncio.create_task(self._serve())
        while not self.started:  # the library has no event for it
            await asyncio.sleep(0.005)
            if serving.done():
                serving.result()
        return serving


@asynccontextmanager
async def running(link: HandFedLink | None = None, **settings: Any) -> AsyncIterator[Served]:
    """A router with `settings`; over `link`, or a new one; fed by hand."""
    given = RouterSettings(port=0, **{"shutdown_grace_s": 0, **settings})
    link = link or HandFedLink()
    app = create_app(given, link.fleet)
    server = Server(app, given)
    serving = await server.start()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(port, link, server, app.state.answers)
    finally:
        server.should_exit = True
        await serving


async def until(condition: Any, within_s: float = DEADLINE_S) -> None:
    """Wait until `condition` holds, also on what sockets bring."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(0.002)


def head(path: str, *, method: str = "POST", **headers: str) -> bytes:
    """The head of a request, to the empty line; underscores in names are hyphens."""
    lines = [f"{method} {path} HTTP/1.1", "host: router"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def post(path: str, body: bytes | dict[str, Any], **headers: str) -> bytes:
    """A whole request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content_type": "application/json", "content_length": str(len(data)), **headers}
    return head(path, **given) + data


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


class Connection:
    """A client's end of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        async with asyncio.timeout(DEADLINE_S):
            text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.strip().split("\r\n")
        pairs = [line.partition(": ") for line in lines]
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def answer(self) -> Answer:
        """The next response, whole."""
        status, headers = await self.head()
        async with asyncio.timeout(DEADLINE_S):
            if headers.get("transfer-encoding") == "chunked":
                body = b"".join([piece async for piece in self.chunks()])
            else:
                body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of a chunked body, as they were sent."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def ended(self, within_s: float = DEADLINE_S) -> bytes:
        """What still comes until the other side has closed or cut the connection."""
        async with asyncio.timeout(within_s):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


def connected(served: Served) -> AbstractAsyncContextManager[Connection]:
    return connected_to(served.port)


@asynccontextmanager
async def connected_to(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def ask(served: Served, request: bytes) -> Answer:
    """One request on a connection of its own."""
    async with connected(served) as connection:
        await connection.send(request)
        return await connection.answer()
