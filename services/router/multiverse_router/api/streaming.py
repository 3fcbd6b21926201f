"""HTTP responses that end with their client: streamed or not, a reader that leaves is noticed.

Frameworks notice a lost client only when they next write; the work has to end before that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

SSE_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
# Line ends to many a client, though not to the standard; JSON has escapes for them.
_SEPARATORS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}
Produce = Callable[[], AsyncIterator[str]]

log = logging.getLogger(__name__)


class ClientLeftError(Exception):
    """Nobody is there to answer any more."""


class EventStream(Response):
    """Server-sent events from `produce`; its iterator is closed when the client leaves.

    A client that takes nothing for `stalled_s` seconds is treated as gone.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Produce, stalled_s: float) -> None:
        super().__init__(headers=SSE_HEADERS)
        del self.headers["content-length"]
        self._produce = produce
        self._stalled_s = stalled_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        await until_disconnect(receive, sending)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        chunks = self._produce()
        try:
            async for chunk in chunks:
                async with asyncio.timeout(self._stalled_s):
                    await send(
                        {"type": "http.response.body", "body": chunk.encode(), "more_body": True}
                    )
        except TimeoutError:
            raise ClientLeftError from None
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_disconnect(receive: Receive, work: asyncio.Future[Any]) -> bool:
    """Wait for `work`, but cancel it when the client leaves; false when it did.

    Exceptions of `work` are raised here.
    """
    watching = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait([work, watching], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        return False
    except ClientLeftError:
        return False
    finally:
        for task in (work, watching):
            task.cancel()
        await asyncio.wait([work, watching])
        failure = None if work.cancelled() else work.exception()
        if failure and not isinstance(failure, ClientLeftError):
            log.debug("failed after its client had left", exc_info=failure)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def with_client(request: Request, work: Awaitable[Any]) -> Any:
    """The result of `work`, which is cancelled when the client leaves (ClientLeftError)."""
    future = asyncio.ensure_future(work)
    if not await until_disconnect(request.receive, future):
        raise ClientLeftError
    return future.result()


def sse(data: dict[str, Any], event: str | None = None) -> str:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    text = json.dumps(data, ensure_ascii=False).translate(_SEPARATORS)
    return f"{name}data: {text}\n\n"
