"""The door of the HTTP API: refuses what can be refused by its headers, before a body is read."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from multiverse_router.api.refusals import refusal, refused
from multiverse_router.gate import Gate
from multiverse_router.visit import current_visit
from multiverse_shared.errors import MultiverseError, WorkerUnavailable

OPEN = frozenset({"/health", "/ready", "/metrics"})  # to all, also while the router ends
MOST_HEADERS = 100
MOST_HEADER_BYTES = 32 << 10


class Door:
    """ASGI middleware; `closing` says whether the router ends."""

    def __init__(self, app: ASGIApp, gate: Gate, closing: Callable[[], bool]) -> None:
        self._app = app
        self._gate = gate
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = _bad_head(scope)
            if response is None and scope["path"] not in OPEN:
                try:
                    self._admit(scope)
                except MultiverseError as error:
                    response = refusal(scope["path"], error)
            if response is not None:
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        if self._closing():
            raise WorkerUnavailable("the router is shutting down; try another, or again later")
        named = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self._gate.admit(current_visit(), named)


def _bad_head(scope: Scope) -> Response | None:
    """What refuses a head that is too large, or that says in two ways where its body ends."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
        message = (
            f"headers: {len(headers)} with {size} bytes, {MOST_HEADERS} with "
            f"{MOST_HEADER_BYTES} bytes are taken; send less"
        )
        return refused(scope["path"], 431, "invalid_request_error", message, "headers")
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
        message = "content-length: give it, or transfer-encoding, and only one of them"
        response = refused(scope["path"], 400, "invalid_request_error", message, "content-length")
        response.headers["connection"] = "close"  # where the next request begins is not sure
        return response
    return None
