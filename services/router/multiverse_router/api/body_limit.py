"""Refuses request bodies over a size before they are read into memory."""

from __future__ import annotations

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiverse_router.api.errors import error_body


class _TooLargeError(HTTPException):
    """Of a kind that frameworks let through."""


class BodyLimit:
    """ASGI middleware; counts what really arrives, whatever the headers say."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0
        text = f"the body is larger than {self._max_bytes} bytes; send less"

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise _TooLargeError(413, text)
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLargeError:
            body = error_body("request_too_large", text, "body")
            await JSONResponse(body, 413)(scope, receive, send)
