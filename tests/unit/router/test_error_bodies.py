"""Errors as a client sees them: a status, the field at fault, and one form for all."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI

from multiverse_router.api import refusals
from multiverse_shared.errors import (
    CapacityExceeded,
    DeadlineExceeded,
    InvalidModel,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
    WorkerUnavailable,
)
from tests.unit.router.app import application, post
from tests.unit.router.asgi import Client, request
from tests.unit.router.hand_fed import HandFedLink

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest, 400, "invalid_request_error"),
        (InvalidModel, 400, "invalid_request_error"),
        (NotFound, 404, "not_found_error"),
        (RequestTooLarge, 413, "request_too_large"),
        (CapacityExceeded, 429, "capacity_exceeded"),
        (MultiverseError, 500, "internal_error"),
        (WorkerUnavailable, 503, "worker_unavailable"),
        (DeadlineExceeded, 504, "deadline_exceeded"),
    ],
)
async def test_a_known_error_has_its_status_and_body(
    error: type[MultiverseError], status: int, kind: str
) -> None:
    app, client = FastAPI(), Client()
    refusals.install(app)

    @app.get("/")
    async def fails() -> None:
        raise error("what is wrong", field="prompt")

    await request(app, client, "GET", "/")
    assert client.status == status
    assert client.error == {
        "message": "what is wrong",
        "type": kind,
        "param": "prompt",
        "code": kind,
    }
    assert ("retry-after" in client.headers) == (status in (429, 503))


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (GENERATE, {"prompt": "x", "temprature": 1}, "temprature"),
        (GENERATE, {"prompt": "x", "max_tokens": "many"}, "max_tokens"),
        (GENERATE, {}, "body"),
        (GENERATE, [], "body"),
        (GENERATE, b"", "body"),
    ],
)
async def test_a_wrong_body_names_the_field(path: str, body: Any, param: str) -> None:
    client = await post(application(HandFedLink()), path, body)
    assert client.status == 422
    assert client.error["param"] == param
    assert client.error["message"].startswith(f"{param}: ")
    assert client.error["type"] == "invalid_request_error"


async def test_a_body_that_is_not_json_is_named_as_the_body() -> None:
    client = await post(application(HandFedLink()), GENERATE, b'{"prompt": ')
    assert client.status in (400, 422)
    assert "JSON" in client.error["message"]
    assert client.error["param"] == "body"


@pytest.mark.parametrize(
    "body", [b'{"prompt": "\xff"}', b"[" * 100_000], ids=["not UTF-8", "nested too deep"]
)
async def test_a_body_that_cannot_be_read_has_an_error_of_the_same_form(body: bytes) -> None:
    app = application(HandFedLink())
    app.user_middleware.clear()
    client = await post(app, GENERATE, body)
    assert client.status in (400, 422)
    assert client.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/v1/embeddings", 404), ("GET", GENERATE, 405)]
)
async def test_an_unknown_route_has_an_error_of_the_same_form(
    method: str, path: str, status: int
) -> None:
    client = Client()
    await request(application(HandFedLink()), client, method, path)
    assert client.status == status
    assert client.error["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (GENERATE, b'{"prompt": "\\ud800"}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "a\\udfffb"}]}'),
        (GENERATE, b'{"prompt": "x", "\\ud800": 1}'),
        (GENERATE, b'{"prompt": "x", "model": "\\ud800"}'),
    ],
    ids=["prompt", "message", "key", "model"],
)
async def test_half_a_surrogate_pair_is_refused_and_breaks_nothing(path: str, body: bytes) -> None:
    link = HandFedLink()
    client = await post(application(link), path, body)
    assert 400 <= client.status < 500
    assert client.error["message"]
    assert not link.sent


async def test_another_model_is_not_found() -> None:
    client = await post(application(HandFedLink()), GENERATE, {"prompt": "x", "model": "large"})
    assert client.status == 404
    assert client.error["param"] == "model"


async def test_without_a_worker_the_answer_is_503_with_retry_after() -> None:
    link = HandFedLink()
    link.lose()
    client = await post(application(link), GENERATE, {"prompt": "x"})
    assert client.status == 503
    assert client.headers["retry-after"]
