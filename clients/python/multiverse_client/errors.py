"""What can go wrong, as one tree.

ApiError                          kind                     HTTP  gRPC
|- InvalidRequest                 invalid_request_error    400   INVALID_ARGUMENT
|- NotAllowed                     authentication_error     401   UNAUTHENTICATED
|  `-                             permission_error         403   PERMISSION_DENIED
|- NotFound                       not_found_error          404   NOT_FOUND
|- RequestTooLarge                request_too_large        413   OUT_OF_RANGE
|- CapacityExceeded     retried   capacity_exceeded        429   RESOURCE_EXHAUSTED
|- InternalError                  internal_error           500   INTERNAL
|- WorkerUnavailable    retried   worker_unavailable       503   UNAVAILABLE
|- DeadlineExceeded               deadline_exceeded        504   DEADLINE_EXCEEDED
`- ConnectionFailed     retried   connection_failed        no whole answer came
   `- TimedOut                    timed_out                this client waited long enough
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar


class ApiError(Exception):
    """Root of the tree.

    `message` names what is wrong and the remedy, in the server's words where it has some.
    `kind` is the error's name on the wire. `field` is the part of the request at fault, or None.
    `retry_after_s` is how long the server asks to wait before another try, or None.
    `started` says whether events of the answer had come: such a failure is never retried.
    """

    kind: str = "internal_error"
    retried: ClassVar[bool] = False  # before the first byte of an answer

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        field: str | None = None,
        retry_after_s: float | None = None,
        started: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or type(self).kind
        self.field = field
        self.retry_after_s = retry_after_s
        self.started = started


class InvalidRequest(ApiError):
    """The request has to be changed; `field` says where."""

    kind = "invalid_request_error"


class NotAllowed(ApiError):
    """The key is missing, unknown, or not for this."""

    kind = "authentication_error"


class NotFound(ApiError):
    """Another model than the served one, or no such address."""

    kind = "not_found_error"


class Conflict(ApiError):
    """The state of the thing does not allow it."""

    kind = "conflict"


class RequestTooLarge(ApiError):
    """Body, prompt or budget do not fit."""

    kind = "request_too_large"


class CapacityExceeded(ApiError):
    """Too much is in flight, or a limit of the key is reached."""

    kind = "capacity_exceeded"
    retried = True


class InternalError(ApiError):
    """The server failed; its log has more."""

    kind = "internal_error"


class WorkerUnavailable(ApiError):
    """The router has no worker now, or lost it."""

    kind = "worker_unavailable"
    retried = True


class DeadlineExceeded(ApiError):
    """A deadline passed, or the answer was read too slowly."""

    kind = "deadline_exceeded"


class ConnectionFailed(ApiError):
    """The router can't be reached, or the answer broke off."""

    kind = "connection_failed"
    retried = True


class TimedOut(ConnectionFailed):
    """One of this client's `Timeouts` passed."""

    kind = "timed_out"
    retried = False


_CLASSES: tuple[type[ApiError], ...] = (
    InvalidRequest,
    NotAllowed,
    NotFound,
    Conflict,
    RequestTooLarge,
    CapacityExceeded,
    InternalError,
    WorkerUnavailable,
    DeadlineExceeded,
)
_KINDS = {cls.kind: cls for cls in _CLASSES} | {"permission_error": NotAllowed}
_HTTP = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict",
    413: "request_too_large",
    429: "capacity_exceeded",
    502: "worker_unavailable",
    503: "worker_unavailable",
    504: "deadline_exceeded",
}


def error_of(
    kind: str,
    message: str,
    *,
    field: str | None = None,
    retry_after: str | None = None,
    started: bool = False,
) -> ApiError:
    """The error that is called `kind` on the wire; unknown kinds are plain ApiErrors.

    `retry_after` is the header of that name: seconds; a date is not understood.
    """
    try:
        seconds = None if retry_after is None else max(0.0, float(retry_after))
    except ValueError:
        seconds = None
    return _KINDS.get(kind, ApiError)(
        message, kind=kind, field=field, retry_after_s=seconds, started=started
    )


def error_of_response(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """What an HTTP answer other than 200 says; something between may have written it."""
    fallback = "invalid_request_error" if 400 <= status < 500 else "internal_error"
    kind = _HTTP.get(status, fallback)
    message, field = f"status {status}: {body[:200].decode(errors='replace')}", None
    try:
        error = json.loads(body)["error"]
        message, field = str(error["message"]), error.get("param")
        kind = error["type"] if error.get("type") in _KINDS else kind
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return error_of(kind, message, field=field, retry_after=headers.get("retry-after"))
