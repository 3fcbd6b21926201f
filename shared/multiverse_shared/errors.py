"""The one exception tree, and the one table error -> HTTP status -> gRPC status.

MultiverseError            500  INTERNAL
|- InvalidRequest          400  INVALID_ARGUMENT      names the field and the remedy
|  |- InvalidDialect
|  `- InvalidModel
|- Unauthenticated         401  UNAUTHENTICATED       no key, or one that is not known
|- RequestTooLarge         413  OUT_OF_RANGE
|- NotFound                404  NOT_FOUND             an unknown model, base or lease
|- Conflict                409  FAILED_PRECONDITION   the state of the thing does not allow it
|- CapacityExceeded        429  RESOURCE_EXHAUSTED
|- WorkerUnavailable       503  UNAVAILABLE
`- DeadlineExceeded        504  DEADLINE_EXCEEDED
"""

from __future__ import annotations

from dataclasses import dataclass


class MultiverseError(Exception):
    """Root of the tree. `field` names the offending input, when there is one.

    `retry_after_s` says when another try is worth while, where that is known.
    """

    def __init__(
        self, message: str, *, field: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s


class InvalidRequest(MultiverseError):
    """The caller must change the request."""


class InvalidDialect(InvalidRequest):
    """A dialect file breaks the schema, or a tokenizer cannot carry its tags."""


class InvalidModel(InvalidRequest):
    """A model directory or file cannot be served as it is."""


class Unauthenticated(MultiverseError):
    """The caller has to show a key that is known here."""


class RequestTooLarge(MultiverseError):
    """The request does not fit the context or the pool, whatever is evicted."""


class NotFound(MultiverseError):
    """A model, a base key or a lease that nobody here knows."""


class Conflict(MultiverseError):
    """What is asked for can't be done in the state that the thing is in."""


class CapacityExceeded(MultiverseError):
    """No room now; worth another try later."""


class WorkerUnavailable(MultiverseError):
    """No worker, or the stream to it broke."""


class DeadlineExceeded(MultiverseError):
    """The deadline of the request passed."""


@dataclass(frozen=True, slots=True)
class Status:
    """How an error looks from outside."""

    http: int
    grpc: str  # name of a grpc.StatusCode
    kind: str  # the `type` of an error body


STATUSES: dict[type[MultiverseError], Status] = {
    MultiverseError: Status(500, "INTERNAL", "internal_error"),
    InvalidRequest: Status(400, "INVALID_ARGUMENT", "invalid_request_error"),
    Unauthenticated: Status(401, "UNAUTHENTICATED", "authentication_error"),
    RequestTooLarge: Status(413, "OUT_OF_RANGE", "request_too_large"),
    NotFound: Status(404, "NOT_FOUND", "not_found_error"),
    Conflict: Status(409, "FAILED_PRECONDITION", "conflict"),
    CapacityExceeded: Status(429, "RESOURCE_EXHAUSTED", "capacity_exceeded"),
    WorkerUnavailable: Status(503, "UNAVAILABLE", "worker_unavailable"),
    DeadlineExceeded: Status(504, "DEADLINE_EXCEEDED", "deadline_exceeded"),
}


def status_of(error: type[MultiverseError]) -> Status:
    """The row of the nearest ancestor that has one."""
    return next(STATUSES[cls] for cls in error.__mro__ if cls in STATUSES)


def error_from_grpc(code: str, message: str) -> MultiverseError:
    """The error that a gRPC status name stands for; unknown names are internal errors."""
    for cls, status in STATUSES.items():
        if status.grpc == code:
            return cls(message)
    return MultiverseError(message)


def error_of_kind(kind: str, message: str) -> MultiverseError:
    """The error that an event's `kind` stands for; unknown kinds are internal errors."""
    for cls, status in STATUSES.items():
        if status.kind == kind:
            return cls(message)
    return MultiverseError(message)
