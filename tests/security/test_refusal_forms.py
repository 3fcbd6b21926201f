"""What is refused before a route has the error body of the API that was called."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from multiverse_shared.api_keys import new_key
from tests.security.serving import Answer, ask, connected, head, post, running

OPENAI = ["/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/models/small"]
ANTHROPIC = ["/v1/messages", "/v1/messages/count_tokens"]
OWN = ["/v1/generate", "/v1/messages-of-others", "/nowhere"]
PATHS = [*OPENAI, *ANTHROPIC, *OWN]
DEEP = b"[" * 100 + b"]" * 100

INVALID = "invalid_request_error"
# By status: OpenAI's type and code, Anthropic's type, our own type.
FORMS: dict[int, tuple[str, str | None, str, str]] = {
    400: (INVALID, None, INVALID, INVALID),
    401: (INVALID, "invalid_api_key", "authentication_error", "authentication_error"),
    405: (INVALID, "method_not_supported", INVALID, INVALID),
    408: (INVALID, "request_timeout", INVALID, INVALID),
    413: (INVALID, "request_too_large", "request_too_large", "request_too_large"),
    431: (INVALID, "headers_too_large", INVALID, INVALID),
    503: ("server_error", "worker_unavailable", "overloaded_error", "worker_unavailable"),
}


def check(path: str, answer: Answer, status: int) -> None:
    """The answer has this status, and its body the form that clients of `path` read."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    openai, code, anthropic, own = FORMS[status]
    body: dict[str, Any] = json.loads(answer.body)
    message = body["error"].pop("message")
    assert isinstance(message, str)
    assert message
    if path in ANTHROPIC:
        assert body == {"type": "error", "error": {"type": anthropic}}
        return
    field = body["error"].pop("param")
    assert field is None or field in message or field in ("headers", "body", "authorization")
    kind, told = (openai, code) if path in OPENAI else (own, own)
    assert body == {"error": {"type": kind, "code": told}}


async def test_without_a_key() -> None:
    async with running(keys=new_key("alice")[1]) as served:
        for path in PATHS:
            answer = await ask(served, post(path, {"prompt": "x"}))
            check(path, answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_before_the_body_is_whole_or_right() -> None:
    many = {f"x_{number}": "y" for number in range(200)}
    async with running(max_body_bytes=1024) as served:
        for path in PATHS:
            check(path, await ask(served, post(path, {"prompt": "x"}, **many)), 431)
            check(path, await ask(served, post(path, DEEP)), 400)
            check(path, await ask(served, post(path, b'{"a": 1, "a": 2}')), 400)
            check(path, await ask(served, post(path, b'{"a": "\xff"}')), 400)
            check(path, await ask(served, post(path, b" " * 2000)), 413)


async def test_a_body_that_is_too_slow() -> None:
    async with running(body_timeout_s=0.05) as served:
        for path in PATHS:
            began = head(path, content_length="10", content_type="application/json")
            check(path, await ask(served, began), 408)


async def test_a_head_that_does_not_end() -> None:
    """Refused by the protocol, which has no request yet. Pieces: the path may be cut."""
    async with running() as served:
        for path in PATHS:
            pieces = (b"POST ", path[:4].encode(), path[4:].encode() + b" HTTP/1.1\r\nx: ")
            async with connected(served) as connection:
                for piece in (*pieces, b"y" * 17_000):
                    await connection.send(piece)
                    await asyncio.sleep(0)
                check(path, await connection.answer(), 431)


async def test_a_head_that_does_not_end_behind_an_answer_to_another_path() -> None:
    async with running() as served, connected(served) as connection:
        await connection.send(head("/health", method="GET"))
        assert (await connection.answer()).status == 200
        await connection.send(b"POST /v1/messages HTTP/1.1\r\nx: " + b"y" * 17_000)
        check("/v1/messages", await connection.answer(), 431)


async def test_another_method_and_the_end_of_the_router() -> None:
    async with running() as served:
        for path in [*OPENAI[:2], *ANTHROPIC, OWN[0]]:
            check(path, await ask(served, head(path, method="GET")), 405)
        served.answers.closing = True
        for path in PATHS:
            answer = await ask(served, post(path, {"prompt": "x"}))
            check(path, answer, 503)
            assert answer.headers["retry-after"]
