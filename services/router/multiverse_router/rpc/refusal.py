"""Errors as gRPC status, from the one table of `multiverse_shared.errors`."""

from __future__ import annotations

from typing import NoReturn

import grpc

from multiverse_router.api.errors import retry_after
from multiverse_shared.errors import MultiverseError, status_of

MOST_CHARACTERS = 500  # clients refuse trailers over 8 KiB; a message may quote a long text
_TRY_AGAIN = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")


async def refuse(context: grpc.aio.ServicerContext, error: MultiverseError) -> NoReturn:
    """End the call with the status of `error`; kind and field stand in the trailing metadata."""
    status = status_of(type(error))
    trailers = [("error-kind", status.kind)]
    if error.field is not None:
        trailers.append(("error-field", _ascii(error.field)))
    if status.grpc in _TRY_AGAIN:
        trailers.append(("retry-after", retry_after(error)))
    await context.abort(
        grpc.StatusCode[status.grpc], error.message[:MOST_CHARACTERS], tuple(trailers)
    )
    raise AssertionError("abort does not return")


def _ascii(text: str) -> str:
    return text[:MOST_CHARACTERS].encode("ascii", "backslashreplace").decode()
