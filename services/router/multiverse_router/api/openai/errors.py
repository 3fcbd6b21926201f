"""Errors as OpenAI's API says them: statuses, types and codes that its clients know."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from multiverse_router.api.errors import error_headers
from multiverse_router.api.openai.parameters import REFUSED
from multiverse_router.events import ErrorEvent
from multiverse_shared.errors import STATUSES, MultiverseError, status_of

INVALID = "invalid_request_error"
# By the kind of an error: HTTP status, type, code.
_FORMS: dict[str, tuple[int, str, str | None]] = {
    "invalid_request_error": (400, INVALID, None),
    "request_too_large": (400, INVALID, "context_length_exceeded"),
    "not_found_error": (404, INVALID, "model_not_found"),
    "capacity_exceeded": (429, "requests", "rate_limit_exceeded"),
    "worker_unavailable": (503, "server_error", "worker_unavailable"),
    "internal_error": (500, "server_error", "internal_error"),
    "deadline_exceeded": (504, "server_error", "deadline_exceeded"),
}
# Of refusals that name no parameter: codes by HTTP status.
_EDGE_CODES = {
    401: "invalid_api_key",
    404: "unknown_url",
    405: "method_not_supported",
    408: "request_timeout",
    413: "request_too_large",
    431: "headers_too_large",
}
_CODES = {"missing": "missing_required_parameter", "unsupported_parameter": "unsupported_parameter"}


def error_body(
    message: str, kind: str = INVALID, param: str | None = None, code: str | None = None
) -> dict[str, object]:
    """The one form of an error, as an answer and inside a stream."""
    text = message.encode(errors="replace").decode()  # half a surrogate pair can't be sent
    param = param.encode(errors="replace").decode() if param else None
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def event_error(event: ErrorEvent) -> dict[str, object]:
    """The body for an answer that failed."""
    _, kind, code = _form(event.kind)
    return error_body(event.message, kind, None, code)


def error_response(message: str, kind: str, field: str | None = None) -> Response:
    """An error of `kind` as an answer."""
    status, openai_kind, code = _form(kind)
    param = _bracketed(field)
    if field and param:
        message = message.replace(field, param)
    body = error_body(message, openai_kind, param, code)
    return JSONResponse(body, status, error_headers(status))


def refusal_body(status: int, kind: str, message: str, field: str | None) -> dict[str, object]:
    """The body of an error that was met before a route, where the HTTP status is another's."""
    _, openai_kind, code = _form(kind)
    if status in _EDGE_CODES:
        openai_kind, code = INVALID, _EDGE_CODES[status]
    return error_body(message, openai_kind, _bracketed(field), code)


def _form(kind: str) -> tuple[int, str, str | None]:
    if kind in _FORMS:
        return _FORMS[kind]
    status = next((status.http for status in STATUSES.values() if status.kind == kind), 500)
    return status, kind, kind


def _bracketed(field: str | None) -> str | None:
    """`messages.0.content` as `messages[0].content`."""
    return re.sub(r"\.([0-9]+)(?=\.|$)", r"[\1]", field) if field else None


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return _invalid(error)
            except MultiverseError as error:
                chat = error.field == "prompt" and "chat" in self.path
                field = "messages" if chat else error.field
                return error_response(error.message, status_of(type(error)).kind, field)
            except HTTPException as error:
                if error.status_code != 400:
                    raise
                return JSONResponse(error_body(str(error.detail)), 400)

        return handled


def _invalid(error: RequestValidationError) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        return JSONResponse(error_body(message), 400)
    place = [str(part) for part in first["loc"] if part != "body"]
    param = _bracketed(".".join(place))
    if first["type"] == "extra_forbidden":
        return _unknown(param or "", place)
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        message = f"missing required parameter: '{param}'"
    elif param:
        message = f"{param}: {message}"
    kind = first["type"]
    code = _CODES.get(kind) or ("invalid_type" if _is_type_error(kind) else "invalid_value")
    return JSONResponse(error_body(message, param=param, code=code), 400)


def _unknown(param: str, place: list[str]) -> Response:
    if len(place) == 1 and param in REFUSED:
        message = f"unsupported parameter: '{param}': {REFUSED[param]}; leave it out"
        body = error_body(message, param=param, code="unsupported_parameter")
    else:
        message = f"unknown parameter: '{param}'"
        body = error_body(message, param=param, code="unknown_parameter")
    return JSONResponse(body, 400)


def _is_type_error(kind: str) -> bool:
    return kind.endswith(("_type", "_parsing", "_from_float"))
