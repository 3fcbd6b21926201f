"""Errors as HTTP answers, from the one table of `multiverse_shared.errors`."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from multiverse_shared.errors import MultiverseError, status_of


def error_response(kind: str, message: str, status: int, field: str | None = None) -> Response:
    """The form of errors that all services of this project have; `param` names the field."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    body = {"error": {"message": message, "type": kind, "param": field, "code": kind}}
    return JSONResponse(body, status, headers)


def refusal(error: MultiverseError) -> Response:
    status = status_of(type(error))
    return error_response(status.kind, error.message, status.http, error.field)


def install(app: FastAPI) -> None:
    """Answer every known error with its status and a body that names field and remedy."""
    app.add_exception_handler(MultiverseError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _known(_: Request, error: Exception) -> Response:
    assert isinstance(error, MultiverseError)
    return refusal(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    places = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    field = ".".join(places) or "body"
    return error_response("invalid_request_error", f"{field}: {first['msg']}", 422, field)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = {404: "not_found_error", 413: "request_too_large"}.get(
        error.status_code, "invalid_request_error"
    )
    field = "body" if error.status_code in (400, 408, 413) else None
    return error_response(kind, str(error.detail), error.status_code, field)
