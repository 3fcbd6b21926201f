"""The one table of errors."""

from __future__ import annotations

import pytest

from multiverse_shared import errors
from multiverse_shared.errors import (
    STATUSES,
    CapacityExceeded,
    Conflict,
    DeadlineExceeded,
    InvalidDialect,
    InvalidModel,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
    Unauthenticated,
    WorkerUnavailable,
    error_from_grpc,
    status_of,
)

_ALL = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, MultiverseError)
]


@pytest.mark.parametrize(
    ("error", "http", "grpc"),
    [
        (MultiverseError, 500, "INTERNAL"),
        (InvalidRequest, 400, "INVALID_ARGUMENT"),
        (InvalidDialect, 400, "INVALID_ARGUMENT"),
        (InvalidModel, 400, "INVALID_ARGUMENT"),
        (Unauthenticated, 401, "UNAUTHENTICATED"),
        (RequestTooLarge, 413, "OUT_OF_RANGE"),
        (NotFound, 404, "NOT_FOUND"),
        (Conflict, 409, "FAILED_PRECONDITION"),
        (CapacityExceeded, 429, "RESOURCE_EXHAUSTED"),
        (WorkerUnavailable, 503, "UNAVAILABLE"),
        (DeadlineExceeded, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_every_error_has_its_http_and_grpc_status(
    error: type[MultiverseError], http: int, grpc: str
) -> None:
    assert (status_of(error).http, status_of(error).grpc) == (http, grpc)


def test_the_list_above_is_complete() -> None:
    assert len(_ALL) == 11


def test_a_new_error_looks_like_its_nearest_ancestor() -> None:
    class MissingPrompt(InvalidRequest):
        pass

    assert status_of(MissingPrompt) is STATUSES[InvalidRequest]


@pytest.mark.parametrize("error", list(STATUSES))
def test_an_error_comes_back_from_its_grpc_status(error: type[MultiverseError]) -> None:
    back = error_from_grpc(status_of(error).grpc, "what happened")
    assert type(back) is error
    assert back.message == str(back) == "what happened"


def test_grpc_statuses_and_kinds_are_unique() -> None:
    assert len({status.grpc for status in STATUSES.values()}) == len(STATUSES)
    assert len({status.kind for status in STATUSES.values()}) == len(STATUSES)


def test_an_unknown_grpc_status_is_an_internal_error() -> None:
    assert type(error_from_grpc("DATA_LOSS", "x")) is MultiverseError


def test_an_error_names_the_field_at_fault() -> None:
    assert InvalidRequest("too hot", field="temperature").field == "temperature"
    assert InvalidRequest("too hot").field is None
