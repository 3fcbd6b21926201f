"""Refuses request bodies over a size, or too slow, before they are read into memory."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiverse_router.api.refusals import refused


class _RefusedError(HTTPException):
    """Of a kind that frameworks let through."""


class BodyLimit:
    """ASGI middleware; counts what really arrives, whatever the headers say.

    The whole body has to be there within `most_s` seconds: 408 if not.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, most_s: float = 30.0) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._most_s = most_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size, whole = 0, False
        too_large = f"the body is larger than {self._max_bytes} bytes; send less"
        too_slow = f"the body was not there within {self._most_s:g} s; send it faster"
        deadline = asyncio.get_running_loop().time() + self._most_s

        async def counted() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise _RefusedError(408, too_slow) from None
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise _RefusedError(413, too_large)
            whole = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, counted, send)
        except _RefusedError as error:
            kind = "request_too_large" if error.status_code == 413 else "invalid_request_error"
            response = refused(scope["path"], error.status_code, kind, error.detail, "body")
            await response(scope, receive, send)
