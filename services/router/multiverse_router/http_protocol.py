"""HTTP/1.1 on a socket: what the server library leaves open.

A connection that says nothing, or half a request, is closed after a while; a body that goes on
after its answer is cut; a reader that takes nothing is cut even with bytes under way (closing
would wait for it for ever); bytes behind a request that is being answered (pipelining) are
dropped, so that the end of its client is seen, and the connection closes after the answer; what is
no HTTP gets an error body like all else, of the API whose path can be read in it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from multiverse_router.api.refusals import body_for
from multiverse_router.api.streaming import ABORT

MOST_PATH = 256  # bytes at the beginning of a request that its path is looked for in
LINGER_S = 2.0  # that a client has to read its answer while it still sends


class HttpProtocol(H11Protocol):
    """One connection. Use a subclass with the times of the settings."""

    header_s = 10.0
    stalled_s = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application = self.app
        self.app = self._with_abort
        self._waiting: asyncio.TimerHandle | None = None
        self._begun = b""  # of a request that has not come in whole

    async def _with_abort(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[ABORT] = self.transport.abort
        await self._application(scope, receive, send)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._answering and self.conn.their_state is h11.DONE:
            self.cycle.keep_alive = False
            return
        if self.conn.their_state is h11.IDLE:
            self._begun = (self._begun + data)[:MOST_PATH]
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._begun = b""
        self._watch_headers()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch_headers(self) -> None:
        """A timer runs while a request has not come in whole."""
        if self.conn.their_state is not h11.IDLE or self._answering:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.header_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def on_response_complete(self) -> None:
        cycle = self.cycle
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(LINGER_S, self._cut_sender, cycle)
        left = self.transport.get_write_buffer_size()
        if left:
            self.loop.call_later(self.stalled_s, self._cut_reader, left)
        super().on_response_complete()

    def _cut_sender(self, cycle: object) -> None:
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def _cut_reader(self, before: int) -> None:
        """Cut who took nothing since `before` bytes were left."""
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        elif left:
            self.loop.call_later(self.stalled_s, self._cut_reader, left)

    @property
    def _path(self) -> str:
        """What stands behind the method, as far as the request is one."""
        words = self._begun.split(b" ", 2)
        return words[1].partition(b"?")[0].decode("latin-1") if len(words) > 2 else ""

    def send_400_response(self, msg: str) -> None:
        """Called while the error that says what is wrong is handled."""
        error = sys.exception()
        status = getattr(error, "error_status_hint", 400)
        if self._answering:  # two answers to one request would be worse than none
            self.transport.abort()
            return
        message = f"{msg.rstrip('.')}: {error}" if error else msg
        refused = body_for(self._path, status, "invalid_request_error", message, "headers")
        body = json.dumps(refused).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self.loop.call_later(LINGER_S, self.transport.abort)
