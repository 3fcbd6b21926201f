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

from multiverse_router.visit import current_visit

ABORT = "multiverse.abort"  # extension of a scope: cuts the connection
HEARTBEAT = ": still here\n\n"
SSE_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
# Line ends to many a client, though not to the standard; JSON has escapes for them.
_SEPARATORS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}
_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: half the time of `dumps`
Produce = Callable[[], AsyncIterator[str]]

log = logging.getLogger(__name__)


class ClientLeftError(Exception):
    """Nobody is there to answer any more."""


class EventStream(Response):
    """Server-sent events from `produce`; its iterator is closed when the client leaves.

    After `heartbeat_s` seconds without an event a comment line says that the stream lives, also
    before the first event. A client that takes nothing for `stalled_s` seconds is treated as gone,
    and its connection is cut.
    """

    media_type = "text/event-stream"

    def __init__(self, produce: Produce, stalled_s: float, heartbeat_s: float = 15.0) -> None:
        super().__init__(headers=SSE_HEADERS)
        del self.headers["content-length"]
        self._produce = produce
        self._stalled_s = stalled_s
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = current_visit()
        sending = asyncio.ensure_future(self._send(send))
        if not await until_disconnect(receive, sending):
            stalled = sending.done() and not sending.cancelled() and sending.exception()
            if stalled or not visit.told:
                visit.left = "stalled" if stalled else "client"
            if stalled and (abort := scope.get("extensions", {}).get(ABORT)):
                abort()  # closing would wait for a reader that does not read
                await asyncio.sleep(0)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        visit, chunks = current_visit(), self._produce()
        writer = _Writer(send)
        watching = asyncio.create_task(
            writer.watch(self._stalled_s, self._heartbeat_s, asyncio.current_task())
        )
        try:
            async for chunk in chunks:
                await writer.write(chunk)
                visit.told = visit.over()
        except asyncio.CancelledError:
            if writer.stalled:
                raise ClientLeftError from None
            raise
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await chunks.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Writer:
    """Sends pieces of a body, one after another, and heartbeats between them.

    One watching task for the whole stream, and not a timer for each piece, tells who stalls.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()  # when the last piece was taken, or the present one begun
        self._writing = False
        self.stalled = False

    async def write(self, text: str) -> None:
        """Returns when the connection has taken it."""
        self._last = self._clock()
        self._writing = True
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        self._writing = False
        self._last = self._clock()

    async def watch(
        self, stalled_s: float, heartbeat_s: float, sender: asyncio.Task[None] | None
    ) -> None:
        """Until cancelled; cancels `sender` when a piece is not taken for `stalled_s` seconds."""
        while True:
            patience = stalled_s if self._writing else heartbeat_s
            left = self._last + patience - self._clock()
            if left > 0:
                await asyncio.sleep(min(left, stalled_s))
            elif self._writing or not await self._beat(stalled_s):
                self.stalled = True
                if sender:
                    sender.cancel()
                return

    async def _beat(self, stalled_s: float) -> bool:
        """Whether the connection took a heartbeat in that time."""
        body = HEARTBEAT.encode()
        try:
            async with asyncio.timeout(stalled_s):
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
        except TimeoutError:
            return False
        self._last = self._clock()
        return True


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
    text = _encode(data)
    if not text.isascii():
        text = text.translate(_SEPARATORS)
    return f"{name}data: {text}\n\n"
