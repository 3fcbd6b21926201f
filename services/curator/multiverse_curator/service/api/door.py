"""What stands before every route: keys, the origin of forms, the size of bodies, metrics.

A key comes as `Authorization: Bearer KEY` or `x-api-key: KEY`, or, from a browser, in a cookie that
`/login` sets. Requests that a page of another site makes are refused, with and without keys.
"""

from __future__ import annotations

import asyncio
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiverse_curator.service.api.errors import error_response, refusal
from multiverse_curator.service.metrics import ApiMetrics
from multiverse_shared.api_keys import KeyFile, presented_key
from multiverse_shared.errors import MultiverseError

COOKIE = "multiverse_key"
OPEN = ("/health", "/ready", "/metrics", "/login", "/static/")
SAFE = ("GET", "HEAD", "OPTIONS")
OTHER = "other"
_PAGE_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        b"img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # none at all would take the origin from forms
    (b"cache-control", b"no-store"),
]


class _RefusedError(HTTPException):
    """Of a kind that frameworks let through."""


class Door:
    """ASGI middleware; `keys` None: open to everybody. Puts `tenant` into the scope's state."""

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyFile | None,
        metrics: ApiMetrics,
        max_body_bytes: int,
        body_timeout_s: float,
    ) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics
        self._max_bytes = max_body_bytes
        self._body_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 499

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *_PAGE_HEADERS]}
            await send(message)

        try:
            await self._enter(scope, receive, told)
        finally:
            route = str(getattr(scope.get("route"), "path", OTHER))
            self._metrics.requests.labels(route, f"{status // 100}xx").inc()
            self._metrics.request_seconds.labels(route).observe(time.monotonic() - begun)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        path = str(scope["path"])
        scope.setdefault("state", {})["tenant"] = ""
        if scope["method"] not in SAFE and not _same_site(headers):
            message = "origin: a page of another site may not do that; use a key instead"
            refused = error_response("permission_error", message, 403, "origin")
            await refused(scope, receive, send)
            return
        if self._keys is not None and not path.startswith(OPEN):
            try:
                scope["state"]["tenant"] = self._keys.tenant(_with_cookie(headers))
            except MultiverseError as error:
                response = refusal(error)
                if "text/html" in headers.get("accept", "") and not path.startswith("/v1/"):
                    response = RedirectResponse("/login", 303)
                await response(scope, receive, send)
                return
        try:
            await self._app(scope, self._limited(receive), send)
        except _RefusedError as error:
            kind = "request_too_large" if error.status_code == 413 else "invalid_request_error"
            answer = error_response(kind, error.detail, error.status_code, "body")
            await answer(scope, receive, send)

    def _limited(self, receive: Receive) -> Receive:
        """Counts what really arrives, whatever the headers say."""
        size, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self._body_s

        async def counted() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise _RefusedError(
                    408, f"the body was not there within {self._body_s:g} s; send it faster"
                ) from None
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise _RefusedError(
                    413, f"the body is larger than {self._max_bytes} bytes; send less"
                )
            whole = not message.get("more_body", False)
            return message

        return counted


def _with_cookie(headers: dict[str, str]) -> dict[str, str]:
    """A key in the cookie counts where no header has one."""
    if presented_key(headers):
        return headers
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        cookie = None
    return {**headers, "x-api-key": cookie.value} if cookie else headers


def _same_site(headers: dict[str, str]) -> bool:
    """Browsers name the origin of what changes something; other clients name none."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")
