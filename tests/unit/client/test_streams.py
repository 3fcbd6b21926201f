"""One answer in each of the four ways: its events, its failures, its end."""

from __future__ import annotations

import socket
import time

import pytest

from multiverse_client import (
    ApiError,
    CapacityExceeded,
    ConnectionFailed,
    Fork,
    InvalidRequest,
    NotFound,
    Retry,
    Start,
    Text,
    TimedOut,
    Timeouts,
    WorkerUnavailable,
)
from multiverse_shared.errors import STATUSES
from tests.unit.client.conftest import Way
from tests.unit.client.scripted import Events, Refusal, Script

START = {"type": "start", "seq": 0, "request": "r", "model": "m", "prompt_tokens": 3}
TEXT = {"type": "text", "path": "0", "kind": "text", "delta": "a\u2028\x85b", "token_ids": [1, 2]}
FORK = {"type": "fork", "path": "0", "k": 2, "paths": ["0.1", "0.2"], "outlines": ["x", "y"]}
USAGE = {
    "type": "usage",
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "written_tokens": 0,
    "critical_path_tokens": 2,
    "parallelism": 1.0,
    "cached_tokens": 0,
    "reused_tokens": 0,
    "irregular": {"stray_tag": 1},
}
FINISH = {"type": "finish", "reason": "stop"}


def numbered(*events: dict[str, object]) -> tuple[dict[str, object], ...]:
    return tuple({**event, "seq": number} for number, event in enumerate(events))


WHOLE = Events(numbered(START, TEXT, FORK, USAGE, FINISH))


def test_events_are_values_and_make_the_answer(ask: Way, router: Script) -> None:
    router.says(WHOLE)
    told = ask(router)
    assert told.error is None
    assert told.events[:3] == [
        Start(0, "r", "m", 3),
        Text(1, "0", "text", "a\u2028\x85b", (1, 2)),
        Fork(2, "0", 2, ("0.1", "0.2"), ("x", "y")),
    ]
    assert told.answer.complete
    assert told.answer.finish_reason == "stop"
    assert told.answer.usage
    assert told.answer.usage.irregular == {"stray_tag": 1}
    assert told.answer.text() == "a\u2028\x85b"
    assert router.asked[0]["prompt"] == "why?"


def test_the_key_goes_as_a_bearer_token(ask: Way, router: Script) -> None:
    router.says(WHOLE)
    ask(router, api_key="secret")
    assert router.keys == ["Bearer secret"]


@pytest.mark.parametrize("kind", [status.kind for status in STATUSES.values()])
def test_a_refusal_is_the_error_of_its_kind(ask: Way, router: Script, kind: str) -> None:
    refusal = Refusal(kind, "names the field", "max_tokens", "0.02")
    router.says(*[refusal] * 3)
    error = ask(router).error
    assert error is not None
    assert type(error).kind == kind
    assert type(error) is not ApiError
    assert (error.message, error.field, error.started) == ("names the field", "max_tokens", False)
    assert error.retry_after_s == 0.02


@pytest.mark.parametrize("kind", ["capacity_exceeded", "worker_unavailable"])
def test_what_may_pass_is_asked_again(ask: Way, router: Script, kind: str) -> None:
    router.says(Refusal(kind), Refusal(kind), WHOLE)
    assert ask(router).answer.complete
    assert len(router.asked) == 3


def test_no_more_is_asked_than_is_allowed(ask: Way, router: Script) -> None:
    router.says(*[Refusal("capacity_exceeded")] * 3)
    error = ask(router, retry=Retry(attempts=2, first_s=0.01)).error
    assert isinstance(error, CapacityExceeded)
    assert len(router.asked) == 2


def test_what_is_wrong_is_asked_once(ask: Way, router: Script) -> None:
    router.says(Refusal("invalid_request_error"), WHOLE)
    assert isinstance(ask(router).error, InvalidRequest)
    assert len(router.asked) == 1


def test_the_server_says_how_long_to_wait(ask: Way, router: Script) -> None:
    router.says(Refusal("capacity_exceeded", retry_after="0.3"), WHOLE)
    begun = time.monotonic()
    assert ask(router, retry=Retry(first_s=0.0)).answer.complete
    assert time.monotonic() - begun >= 0.3


def test_a_wait_that_is_too_long_is_not_waited_for(ask: Way, router: Script) -> None:
    router.says(Refusal("capacity_exceeded", retry_after="60"), WHOLE)
    error = ask(router).error
    assert isinstance(error, CapacityExceeded)
    assert error.retry_after_s == 60


def test_an_error_event_is_raised_and_never_retried(ask: Way, router: Script) -> None:
    failed = {"type": "error", "kind": "worker_unavailable", "message": "lost"}
    router.says(Events(numbered(START, TEXT, failed)), WHOLE)
    told = ask(router)
    assert isinstance(told.error, WorkerUnavailable)
    assert told.error.started
    assert told.error.message == "lost"
    assert told.answer.text() == "a\u2028\x85b"
    assert len(router.asked) == 1


@pytest.mark.parametrize("then", ["end", "break"])
def test_an_answer_that_breaks_off_is_an_error_and_never_retried(
    ask: Way, router: Script, then: str
) -> None:
    router.says(Events(numbered(START, TEXT), then), WHOLE)
    told = ask(router)
    assert isinstance(told.error, ConnectionFailed)
    assert told.error.started
    assert len(router.asked) == 1


def test_a_missing_event_is_an_error(ask: Way, router: Script) -> None:
    router.says(Events((numbered(START)[0], {**FINISH, "seq": 2})))
    error = ask(router).error
    assert isinstance(error, ConnectionFailed)
    assert "event 1" in error.message


def left(router: Script) -> bool:
    return router.left.wait(5)


def test_leaving_a_stream_ends_the_answer(ask: Way, router: Script) -> None:
    router.says(Events(numbered(START, TEXT), "hang"))
    kept: list[object] = []  # nothing may be left to the collector
    told = ask(router, most=2, on_event=kept.append, on_left=lambda: kept.append(left(router)))
    assert kept[-1] is True
    assert told.error is None
    assert not told.answer.complete


def test_an_error_of_the_reader_ends_the_answer_and_is_its_own(ask: Way, router: Script) -> None:
    def fails(_: object) -> None:
        raise KeyError("of the reader")

    router.says(Events(numbered(START, TEXT), "hang"))
    with pytest.raises(KeyError):
        ask(router, on_event=fails)
    assert router.left.wait(5)


def test_a_whole_answer_that_takes_too_long_is_given_up(ask: Way, router: Script) -> None:
    router.says(Events(numbered(START, TEXT), "hang"), WHOLE)
    told = ask(router, timeouts=Timeouts(total_s=0.3))
    assert isinstance(told.error, TimedOut)
    assert told.error.started
    assert router.left.wait(5)


def test_nobody_at_the_address_is_a_connection_that_failed(ask: Way, router: Script) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    router.http, router.grpc = f"http://{nobody}", f"grpc://{nobody}"
    error = ask(router).error
    assert isinstance(error, ConnectionFailed)
    assert not error.started
    assert nobody in error.message


def test_an_unknown_model_is_not_found(ask: Way, router: Script) -> None:
    router.says(Refusal("not_found_error", "model 'x' is not served here", "model"))
    assert isinstance(ask(router).error, NotFound)
