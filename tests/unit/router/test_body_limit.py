"""Bodies over the limit are refused with 413, whatever their headers say."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from multiverse_router.api.body_limit import BodyLimit
from tests.unit.router.app import MAX_BODY_BYTES, application
from tests.unit.router.asgi import Client, request
from tests.unit.router.hand_fed import HandFedLink

LIMIT = 10


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, and answers with its size."""
    size, more = 0, True
    while more:
        message: Message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.mark.parametrize("chunks", [[b"x" * LIMIT], [b"x" * 4, b"x" * 6], [b""], [b"", b"x"]])
async def test_a_body_within_the_limit_passes(chunks: list[bytes]) -> None:
    client = Client(chunks=chunks)
    await request(BodyLimit(read_all, LIMIT), client, "POST", "/")
    assert client.body == str(sum(map(len, chunks)))


@pytest.mark.parametrize("chunks", [[b"x" * (LIMIT + 1)], [b"x" * 6] * 2, [b"x"] * (LIMIT + 1)])
@pytest.mark.parametrize("headers", [{}, {"content-length": "1"}])
async def test_a_body_over_the_limit_is_refused(
    chunks: list[bytes], headers: dict[str, str]
) -> None:
    client = Client(chunks=chunks)
    await request(BodyLimit(read_all, LIMIT), client, "POST", "/", **headers)
    assert client.status == 413
    assert client.error["param"] == "body"
    assert str(LIMIT) in client.error["message"]


async def test_what_does_not_fit_is_not_read() -> None:
    client = Client(chunks=[b"x" * 6] * 100)
    await request(BodyLimit(read_all, LIMIT), client, "POST", "/")
    assert client._incoming.qsize() == 98


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/generate", "type"), ("/v1/chat/completions", "code")]
)
async def test_the_router_refuses_a_body_that_is_too_large(path: str, field: str) -> None:
    link = HandFedLink()
    half = b" " * (MAX_BODY_BYTES // 2 + 1)
    client = Client(chunks=[half, half, half])
    await request(application(link), client, "POST", path)
    assert client.status == 413
    assert client.error[field] == "request_too_large"
    assert not link.sent
