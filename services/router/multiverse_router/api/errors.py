"""Errors in the form of our own routes, and what all forms share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse

from multiverse_shared.errors import MultiverseError

CLIENT_CLOSED_REQUEST = 499
RETRY_AFTER_S = 1  # where nothing better is known


def error_body(kind: str, message: str, field: str | None = None) -> dict[str, object]:
    """The body that OpenAI's clients understand; `param` names the field."""
    return {"error": {"message": message, "type": kind, "param": field, "code": kind}}


def retry_after(error: MultiverseError) -> str:
    """Whole seconds, at least one."""
    return str(max(1, math.ceil(error.retry_after_s or RETRY_AFTER_S)))


def error_headers(status: int, retry: str = str(RETRY_AFTER_S)) -> dict[str, str]:
    """Those that say how to go on: when to try again, how to show a key."""
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["retry-after"] = retry
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return headers


def error_response(kind: str, message: str, status: int, field: str | None = None) -> Response:
    """An error as an answer."""
    return JSONResponse(error_body(kind, message, field), status, error_headers(status))


def fault(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The field that the first of pydantic's errors is about, and a sentence that names it."""
    first = errors[0]
    name = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
    return name, f"{name}: {first['msg']}"
