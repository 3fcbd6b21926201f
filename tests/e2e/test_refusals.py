"""Bad input is refused with the field's name, and nothing is started for it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.e2e.answers import FLAT, whole
from tests.e2e.load import LoadMeter, busy, eventually

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "x"}]}
MEBIBYTE = 1 << 20

BAD: list[tuple[str, Any, int, str]] = [
    (GENERATE, {"prompt": "x", "temprature": 1}, 422, "temprature"),
    (GENERATE, {"prompt": "x", "temperature": -1}, 422, "temperature"),
    (GENERATE, {"prompt": "x", "top_k": 1 << 40}, 422, "top_k"),
    (GENERATE, {"prompt": "x", "max_paths": 0}, 422, "max_paths"),
    (GENERATE, {"prompt": "x", "parallel": "yes"}, 422, "parallel"),
    (GENERATE, {"prompt": 5}, 422, "prompt"),
    (GENERATE, {"prompt": "x", "min_p": 1.5}, 422, "min_p"),
    (GENERATE, {"prompt": "x", "presence_penalty": 3}, 422, "presence_penalty"),
    (GENERATE, {"prompt": "x", "frequency_penalty": -3}, 422, "frequency_penalty"),
    (GENERATE, {"prompt": "x", "repetition_penalty": 0}, 422, "repetition_penalty"),
    (GENERATE, {"prompt": "x", "logit_bias": {"70": 101}}, 422, "logit_bias.70"),
    (GENERATE, {"prompt": "x", "logit_bias": {"5": 1}}, 400, "logit_bias"),
    (GENERATE, {"prompt": "x", "logit_bias": {"96": 1}}, 400, "logit_bias"),
    (GENERATE, {"prompt": "x", "top_logprobs": 2}, 422, "top_logprobs"),
    (GENERATE, {"prompt": "x", "stop": []}, 422, "stop"),
    (GENERATE, {"prompt": "x", "model": "gpt"}, 404, "model"),
    (GENERATE, {"prompt": "x", "max_tokens": 10**9}, 413, "max_tokens"),
    (GENERATE, {"prompt": "x", "max_tokens": 10**9, "stream": False}, 413, "max_tokens"),
    (GENERATE, {"prompt": "1" * 3000}, 413, "prompt"),
    (GENERATE, {"prompt": "1" * 3000, "stream": False}, 413, "prompt"),
    (GENERATE, {}, 422, "body"),
    (GENERATE, [], 422, "body"),
    (GENERATE, b"", 422, "body"),
    (GENERATE, b'{"prompt": ', 422, "body"),
    (GENERATE, b'{"prompt": "x", "temperature": NaN}', 422, "temperature"),
    (GENERATE, b" " * (5 * MEBIBYTE), 413, "body"),
    (CHAT, b" " * (5 * MEBIBYTE), 413, "body"),
    (CHAT, {}, 400, "messages"),
    (CHAT, {"messages": []}, 400, "messages"),
    (CHAT, {"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0].role"),
    (CHAT, {**HELLO, "n": 129}, 400, "n"),
    (CHAT, {**HELLO, "logprobs": 5}, 400, "logprobs"),
    (CHAT, {**HELLO, "logprobs": True, "top_logprobs": 21}, 400, "top_logprobs"),
    (CHAT, {**HELLO, "logit_bias": {"-1": 1}}, 400, "logit_bias"),
    (CHAT, {**HELLO, "stop": ["a", "b", "c", "d", "e"]}, 400, "stop"),
    (CHAT, {**HELLO, "stop": ["a", ""]}, 400, "stop[1]"),
    (CHAT, {**HELLO, "functions": []}, 400, "functions"),
    (CHAT, {**HELLO, "model": "gpt"}, 404, "model"),
    (CHAT, {**HELLO, "multiverse": {"max_depth": -1}}, 400, "multiverse.max_depth"),
    (CHAT, {**HELLO, "max_tokens": 10**9}, 400, "max_tokens"),
    (CHAT, {**HELLO, "max_tokens": 10**9, "stream": True}, 400, "max_tokens"),
]


def name(case: Any) -> str:
    return str(case)[:40] if isinstance(case, dict | list | bytes) else str(case)


def post(client: httpx.Client, path: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json", "connection": "close"}
    return client.post(path, content=content, headers=headers)


@pytest.mark.parametrize(("path", "body", "status", "field"), BAD, ids=name)
def test_bad_input_is_refused_with_the_name_of_the_field(
    client: httpx.Client, path: str, body: Any, status: int, field: str
) -> None:
    response = post(client, path, body)
    assert 400 <= response.status_code < 500, response.text
    error = response.json()["error"]
    assert error["param"] == field
    assert error["message"]
    assert response.status_code == status


def test_bad_input_starts_nothing(client: httpx.Client, load: LoadMeter) -> None:
    load.until_idle()
    with load.recorded() as reports:
        for path, body, _, _ in BAD:
            post(client, path, body)
        assert not any(busy(report) for report in reports)
        whole(client, FLAT)
        eventually(lambda: any(busy(report) for report in reports), "a report of the good one")


def test_a_body_of_another_type_is_refused(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        response = client.post(GENERATE, content=b"prompt=x", headers={"content-type": kind})
        assert response.status_code == 422
        assert response.json()["error"]["param"] == "body"


def test_refusals_leave_no_request_running(client: httpx.Client) -> None:
    assert client.get("/ready").json()["running"] == 0
