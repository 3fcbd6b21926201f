"""A client of an ASGI application, made by hand: it sends, stalls and leaves when told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message

DEADLINE_S = 5.0


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until `condition` holds; TimeoutError when it does not come to hold."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(0)


class Client:
    """One request. What the application sent stands in `sent`."""

    def __init__(self, body: bytes = b"", *, chunks: list[bytes] | None = None) -> None:
        self.sent: list[Message] = []
        self.takes = asyncio.Event()  # cleared: `send` does not return
        self.takes.set()
        self.offered = 0  # messages that the application sent, taken or not
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        pieces = chunks if chunks is not None else [body]
        for number, piece in enumerate(pieces, 1):
            more = number < len(pieces)
            self._incoming.put_nowait({"type": "http.request", "body": piece, "more_body": more})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> Message:
        return await self._incoming.get()

    async def send(self, message: Message) -> None:
        self.offered += 1
        await self.takes.wait()
        self.sent.append(dict(message))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent[1:]).decode()

    @property
    def complete(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body", False)

    @property
    def error(self) -> dict[str, Any]:
        """The `error` object of a JSON body."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


async def request(app: ASGIApp, client: Client, method: str, path: str, **headers: str) -> None:
    """Let `client` make a request of `app`, to its end."""
    given = {"content-type": "application/json", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, client.receive, client.send)
