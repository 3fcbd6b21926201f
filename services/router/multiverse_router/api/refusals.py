"""Errors outside the routes, in the form of the API that was called: its clients know no other.

What stands before the routes refuses with these, and so does the framework.
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from multiverse_router.api import errors
from multiverse_router.api.anthropic import errors as anthropic
from multiverse_router.api.openai import errors as openai
from multiverse_router.api.streaming import ClientLeftError
from multiverse_shared.errors import MultiverseError, status_of

_OPENAI = ("/v1/chat/completions", "/v1/completions", "/v1/models")
_ANTHROPIC = ("/v1/messages",)
_KINDS = {404: "not_found_error", 413: "request_too_large"}


def body_for(
    path: str, status: int, kind: str, message: str, field: str | None = None
) -> dict[str, object]:
    """The body of an error on `path`."""
    if _is_of(path, _OPENAI):
        return openai.refusal_body(status, kind, message, field)
    if _is_of(path, _ANTHROPIC):
        return anthropic.error_body(kind, message)
    return errors.error_body(kind, message, field)


def refused(path: str, status: int, kind: str, message: str, field: str | None = None) -> Response:
    """An error on `path` as an answer."""
    body = body_for(path, status, kind, message, field)
    return JSONResponse(body, status, errors.error_headers(status))


def refusal(path: str, error: MultiverseError) -> Response:
    """A known error on `path` as an answer."""
    status = status_of(type(error))
    body = body_for(path, status.http, status.kind, error.message, error.field)
    headers = errors.error_headers(status.http, errors.retry_after(error))
    return JSONResponse(body, status.http, headers)


def _is_of(path: str, routes: tuple[str, ...]) -> bool:
    return any(path == route or path.startswith(f"{route}/") for route in routes)


def install(app: FastAPI) -> None:
    """Answer every known error with its status and a body that names field and remedy."""
    app.add_exception_handler(MultiverseError, _known)
    app.add_exception_handler(RequestValidationError, _invalid_body)
    app.add_exception_handler(ClientLeftError, _left)
    app.add_exception_handler(HTTPException, _http)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, MultiverseError)
    return refusal(request.url.path, error)


async def _invalid_body(_: Request, error: Exception) -> Response:
    """Of our own routes; the others say it themselves."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"body: not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        return errors.error_response("invalid_request_error", message, 422, "body")
    name, message = errors.fault(error.errors())
    return errors.error_response("invalid_request_error", message, 422, name)


async def _http(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: routes, methods, bodies."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    kind = _KINDS.get(status, "invalid_request_error")
    field = "body" if status in (400, 408, 413) else None
    response = refused(request.url.path, status, kind, str(error.detail), field)
    response.headers.update(error.headers or {})
    return response


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=errors.CLIENT_CLOSED_REQUEST)
