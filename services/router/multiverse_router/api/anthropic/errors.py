"""Errors as Anthropic's API says them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from multiverse_router.api.anthropic.bodies import REFUSED
from multiverse_router.api.errors import error_headers, fault
from multiverse_shared.errors import STATUSES, MultiverseError, status_of

# Kinds that are called otherwise there.
_TYPES = {
    "capacity_exceeded": "rate_limit_error",
    "worker_unavailable": "overloaded_error",
    "deadline_exceeded": "timeout_error",
    "internal_error": "api_error",
}


def error_body(kind: str, message: str) -> dict[str, Any]:
    """The one form of an error, as an answer and inside a stream."""
    text = message.encode(errors="replace").decode()  # half a surrogate pair can't be sent
    return {"type": "error", "error": {"type": _TYPES.get(kind, kind), "message": text}}


def error_response(kind: str, message: str) -> Response:
    """An error of `kind` as an answer."""
    status = next((status.http for status in STATUSES.values() if status.kind == kind), 500)
    return JSONResponse(error_body(kind, message), status, error_headers(status))


class AnthropicRoute(APIRoute):
    """A route whose errors have Anthropic's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return error_response("invalid_request_error", _invalid(error))
            except MultiverseError as error:
                return error_response(status_of(type(error)).kind, error.message)
            except HTTPException as error:
                if error.status_code != 400:
                    raise
                return error_response("invalid_request_error", str(error.detail))

        return handled


def _invalid(error: RequestValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    name, message = fault(error.errors())
    if first["type"] == "extra_forbidden" and name in REFUSED:
        return f"{name}: {REFUSED[name]}; leave it out"
    return message
