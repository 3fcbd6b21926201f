"""What the command makes of a router's answers, good and broken ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from multiverse_cli.api import ApiError, generate, stream

START = {"type": "start", "seq": 0}
FINISH = {"type": "finish", "seq": 1, "reason": "stop"}


@contextmanager
def router(status: int, body: bytes, *, promised: int | None = None) -> Iterator[str]:
    """A server that answers every request alike; `promised` is its content-length."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body) if promised is None else promised))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sse(*events: dict[str, Any]) -> bytes:
    blocks = (
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    )
    return "".join(blocks).encode()


@pytest.fixture
def nobody() -> str:
    """The address of a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_events_come_one_by_one() -> None:
    with router(200, sse(START, FINISH)) as url:
        assert list(stream(url, {})) == [START, FINISH]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "é", "\n", "\r"])
def test_any_character_in_a_text_arrives_as_it_was_sent(character: str) -> None:
    text = {"type": "text", "seq": 1, "delta": f"a{character}b"}
    with router(200, sse(START, text, FINISH)) as url:
        assert list(stream(url, {})) == [START, text, FINISH]


def test_an_error_event_is_raised_with_its_message() -> None:
    with router(200, sse(START, {"type": "error", "message": "the worker went away"})) as url:
        events = stream(url, {})
        assert next(events) == START
        with pytest.raises(ApiError, match="the worker went away"):
            next(events)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "max_tokens: too many"}}', "max_tokens: too many"),
        (b"<html>gateway</html>", "status 422: <html>gateway</html>"),
        (b'{"detail": "no"}', "status 422"),
        (b'{"error": "no"}', "status 422"),
        (b"[]", "status 422"),
    ],
)
async def test_a_refusal_is_raised_with_its_reason(body: bytes, message: str) -> None:
    with router(422, body) as url:
        with pytest.raises(ApiError, match=message):
            list(stream(url, {}))
        async with httpx.AsyncClient(base_url=url) as client:
            with pytest.raises(ApiError, match=message):
                await generate(client, {})


async def test_without_a_router_the_remedy_is_named(nobody: str) -> None:
    with pytest.raises(ApiError, match=f"{nobody}.*multiverse serve"):
        list(stream(nobody, {}))
    async with httpx.AsyncClient(base_url=nobody) as client:
        with pytest.raises(ApiError, match="multiverse serve"):
            await generate(client, {})


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://[::1", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_an_error_of_the_command(url: str) -> None:
    with pytest.raises(ApiError):
        list(stream(url, {}))


def test_a_stream_that_breaks_off_is_an_error() -> None:
    body = sse(START)
    with router(200, body, promised=len(body) + 10) as url:
        events = stream(url, {})
        assert next(events) == START
        with pytest.raises(ApiError):
            next(events)


def test_a_stream_that_ends_without_its_finish_is_an_error() -> None:
    with router(200, sse(START)) as url, pytest.raises(ApiError):
        list(stream(url, {}))


async def test_a_whole_answer_is_asked_for_unstreamed() -> None:
    answer = {"text": "x", "usage": {}, "finish_reason": "stop", "events": []}
    with router(200, json.dumps(answer).encode()) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            assert await generate(client, {"prompt": "x"}) == answer


async def test_an_answer_that_is_no_json_is_an_error() -> None:
    with router(200, b"<html>") as url:
        async with httpx.AsyncClient(base_url=url) as client:
            with pytest.raises(ApiError):
                await generate(client, {})
