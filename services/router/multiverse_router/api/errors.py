"""Errors as HTTP answers, from the one table of `multiverse_shared.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from multiverse_router.api.streaming import ClientLeftError
from multiverse_shared.errors import MultiverseError, status_of

CLIENT_CLOSED_REQUEST = 499
RETRY_AFTER_S = "1"


def error_body(kind: str, message: str, field: str | None = None) -> dict[str, object]:
    """The body that OpenAI's clients understand; `param` names the field."""
    return {"error": {"message": message, "type": kind, "param": field, "code": kind}}


def error_response(kind: str, message: str, status: int, field: str | None = None) -> Response:
    """An error as an answer; says when to try again where that helps."""
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["retry-after"] = RETRY_AFTER_S
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(error_body(kind, message, field), status, headers)


def install(app: FastAPI) -> None:
    """Answer every known error with its status and a body that names field and remedy."""
    app.add_exception_handler(MultiverseError, _known)
    app.add_exception_handler(RequestValidationError, _invalid_body)
    app.add_exception_handler(ClientLeftError, _left)
    app.add_exception_handler(HTTPException, _http)


async def _known(_: Request, error: Exception) -> Response:
    assert isinstance(error, MultiverseError)
    return refusal(error)


def refusal(error: MultiverseError) -> Response:
    """A known error as an answer."""
    status = status_of(type(error))
    return error_response(status.kind, error.message, status.http, error.field)


async def _invalid_body(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        message = f"body: not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        return JSONResponse(error_body("invalid_request_error", message, "body"), 422)
    name, message = fault(error.errors())
    return JSONResponse(error_body("invalid_request_error", message, name), 422)


def fault(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The field that the first of pydantic's errors is about, and a sentence that names it."""
    first = errors[0]
    name = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
    return name, f"{name}: {first['msg']}"


async def _http(_: Request, error: Exception) -> Response:
    """What the framework itself refuses: routes, methods, bodies."""
    assert isinstance(error, HTTPException)
    kind = {404: "not_found_error", 413: "request_too_large"}.get(
        error.status_code, "invalid_request_error"
    )
    field = "body" if error.status_code in (400, 408, 413) else None
    body = error_body(kind, str(error.detail), field)
    return JSONResponse(body, error.status_code, error.headers)


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)
