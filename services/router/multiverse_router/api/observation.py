"""Request ids, metrics and the access log: what is known of a request when it has ended."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiverse_router.answers import Answers
from multiverse_router.api.door import OPEN
from multiverse_router.calls import Calls
from multiverse_router.visit import Visit, current
from multiverse_shared.tracing import TRACEPARENT, Value

MOST_PATH_CHARACTERS = 200
MOST_PROMPT_BYTES = 64 << 10  # of a body in the log, where it may stand there at all
OTHER = "other"
_REASONS = {
    400: "invalid",
    401: "unauthenticated",
    404: "not_found",
    405: "invalid",
    408: "slow_body",
    413: "too_large",
    415: "invalid",
    422: "invalid",
    429: "capacity",
    431: "headers",
    503: "unavailable",
}

access = logging.getLogger("multiverse_router.access")


class Observation:
    """ASGI middleware, outside all others."""

    def __init__(self, app: ASGIApp, answers: Answers, calls: Calls) -> None:
        self._app = app
        self._answers = answers
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = Visit.begin({"x-request-id": _header(scope, b"x-request-id")})
        token = current.set(visit)
        if scope["path"] not in OPEN:
            self._begin_span(scope, visit)
        begun = time.monotonic()
        status, sent = 0, 0

        async def told(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                named = [*message.get("headers", []), (b"x-request-id", visit.id.encode())]
                message = {**message, "headers": named}
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, told)
        finally:
            current.reset(token)
            visit.end()
            seconds = time.monotonic() - begun
            if status in (0, 499):
                status, visit.left = 499, visit.left or "client"
            self._count(scope, visit, status, seconds)
            _end_span(scope, visit, status)
            if access.isEnabledFor(logging.INFO):
                access.info(_line(scope, visit, status, seconds, sent))

    def _begin_span(self, scope: Scope, visit: Visit) -> None:
        method = scope["method"]
        attributes = {
            "http.request.method": method,
            "url.path": scope["path"][:MOST_PATH_CHARACTERS],
        }
        traceparent = _header(scope, TRACEPARENT.encode())
        self._calls.begin(visit, f"{method} {_route(scope)}", traceparent, attributes)

    def _count(self, scope: Scope, visit: Visit, status: int, seconds: float) -> None:
        metrics, route = self._answers.metrics, _route(scope)
        model = visit.model or self._answers.only_model
        metrics.requests.labels(route, f"{status // 100}xx", model).inc()
        metrics.request_seconds.labels(route).observe(seconds)
        if visit.left:
            metrics.left.labels(visit.left).inc()
        elif status in _REASONS and route != "/ready":
            metrics.refused.labels(_REASONS[status]).inc()


def _header(scope: Scope, wanted: bytes) -> str:
    """The first header of this name; empty when there is none."""
    found = next((value for name, value in scope["headers"] if name == wanted), b"")
    return str(found.decode("latin-1"))


def _end_span(scope: Scope, visit: Visit, status: int) -> None:
    span: dict[str, Value] = {"http.route": _route(scope), "http.response.status_code": status}
    if visit.tenant:
        span["multiverse.tenant"] = visit.tenant
    visit.span.set(span)
    visit.span.end("the client left" if visit.left else f"HTTP {status}" if status >= 500 else "")


def _route(scope: Scope) -> str:
    """The template of the route; of a request that got to none, its path if that is one."""
    found = getattr(scope.get("route"), "path", None)
    if found is not None:
        return str(found)
    app, path = scope.get("app"), str(scope["path"])
    return path if app and (path in OPEN or path in app.openapi()["paths"]) else OTHER


def _line(scope: Scope, visit: Visit, status: int, seconds: float, sent: int) -> str:
    line: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "request_id": visit.id,
        "client": (scope.get("client") or ("",))[0],
        "tenant": visit.tenant,
        "method": scope["method"],
        "path": scope["path"][:MOST_PATH_CHARACTERS],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "bytes": sent,
        "answers": visit.answers,
    }
    if visit.left:
        line["left"] = visit.left
    if visit.body is not None:
        line["body"] = visit.body[:MOST_PROMPT_BYTES].decode("utf-8", "replace")
    return json.dumps(line)
