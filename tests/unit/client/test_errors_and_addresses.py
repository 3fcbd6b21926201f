"""Errors of the wire, waits between tries, addresses, and what the package may import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from multiverse_client import (
    ApiError,
    AsyncClient,
    CapacityExceeded,
    Client,
    ConnectionFailed,
    InternalError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    RequestTooLarge,
    Retry,
    WorkerUnavailable,
)
from multiverse_client.errors import error_of, error_of_response
from multiverse_client.request import Options
from multiverse_protos.generate.v1 import generate_pb2 as pb


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (422, b'{"error": {"message": "m", "type": "invalid_request_error"}}', InvalidRequest),
        (400, b"<html>", InvalidRequest),
        (401, b"{}", NotAllowed),
        (403, b"[]", NotAllowed),
        (404, b"null", NotFound),
        (413, b'{"error": "no"}', RequestTooLarge),
        (429, b"\xff", CapacityExceeded),
        (500, b"", InternalError),
        (502, b"bad gateway", WorkerUnavailable),
        (503, b'{"error": {"message": "m", "type": "strange"}}', WorkerUnavailable),
        (302, b"", InternalError),
    ],
)
def test_any_answer_that_is_no_success_has_its_error(
    status: int, body: bytes, error: type[ApiError]
) -> None:
    got = error_of_response(status, {"retry-after": "7"}, body)
    assert type(got) is error
    assert got.message
    assert got.retry_after_s == 7


def test_a_date_or_nonsense_is_no_wait() -> None:
    assert error_of("capacity_exceeded", "m", retry_after="Wed, 21 Oct").retry_after_s is None


def test_waits_double_within_their_bounds_and_end() -> None:
    retry, error = Retry(attempts=5, first_s=1.0, longest_s=3.0), WorkerUnavailable("m")
    for attempt, bound in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)):
        waits = [retry.delay(attempt, error) for _ in range(50)]
        assert all(wait is not None and bound / 2 <= wait <= bound for wait in waits)
        assert len(set(waits)) > 1
    assert retry.delay(5, error) is None
    assert retry.delay(1, ConnectionFailed("m", started=True)) is None
    assert retry.delay(1, InvalidRequest("m")) is None


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "", "http://", "grpc:host:1", "http://[::1"]
)
def test_what_is_no_address_is_said_at_once(url: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(InvalidRequest, match="an address begins with"):
            client(url)


def test_every_option_can_be_asked_for_over_grpc() -> None:
    fields = {field.name for field in pb.GenerateRequest.DESCRIPTOR.fields}
    assert set(Options.__annotations__) == fields - {"prompt", "messages"}


def test_it_needs_neither_services_nor_grpc_for_http() -> None:
    code = (
        "import sys, multiverse_client; multiverse_client.Client('http://host'); "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "('grpc', 'multiverse_shared', 'multiverse_router', 'multiverse_protos', 'pydantic')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
