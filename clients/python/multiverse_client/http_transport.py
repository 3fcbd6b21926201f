"""Over HTTP: the events of POST /v1/generate."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from multiverse_client.errors import ConnectionFailed, TimedOut, error_of_response
from multiverse_client.events import Event
from multiverse_client.sequence import Sequence
from multiverse_client.sse import SseReader
from multiverse_client.trace import trace_headers
from multiverse_client.transport import Model, Timeouts

_UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=20)


def _settings(url: str, key: str | None, timeouts: Timeouts) -> dict[str, Any]:
    silence = (
        timeouts.silence_s
        if timeouts.total_s is None
        else min(timeouts.silence_s, timeouts.total_s)
    )
    return {
        "base_url": url,
        "headers": {"authorization": f"Bearer {key}"} if key else {},
        "timeout": httpx.Timeout(silence, connect=timeouts.connect_s),
        "limits": _UNLIMITED,
    }


def _generate(body: dict[str, Any]) -> dict[str, Any]:
    """A request; in ASCII, so that half a surrogate pair is refused by the server, by name."""
    content = json.dumps(body).encode()
    return {"content": content, "headers": {"content-type": "application/json", **trace_headers()}}


def _models(response: httpx.Response) -> list[Model]:
    if response.status_code != 200:
        raise error_of_response(response.status_code, response.headers, response.content)
    try:
        return [Model(name=entry["id"], **entry["multiverse"]) for entry in response.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionFailed(f"no list of models ({error}); is this a router?") from None


@contextmanager
def _translated(url: str, *, started: bool = False) -> Iterator[None]:
    """Errors of httpx as ours."""
    try:
        yield
    except (httpx.TimeoutException, TimeoutError) as error:
        raise TimedOut(
            f"{url}: waited long enough ({type(error).__name__}); see Timeouts", started=started
        ) from None
    except (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError) as error:
        what = "the answer broke off" if started else "no router answers"
        raise ConnectionFailed(f"{url}: {what} ({error})", started=started) from None


class HttpTransport:
    """Sync. `total_s` is looked at whenever something arrives, heartbeats included."""

    def __init__(self, url: str, key: str | None, timeouts: Timeouts) -> None:
        self._url = url
        self._total_s = timeouts.total_s
        self._http = httpx.Client(**_settings(url, key, timeouts))

    @contextmanager
    def open(self, body: dict[str, Any]) -> Iterator[Iterator[Event]]:
        deadline = None if self._total_s is None else time.monotonic() + self._total_s
        request = self._http.build_request("POST", "/v1/generate", **_generate(body))
        with _translated(self._url):
            response = self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                with _translated(self._url):
                    content = response.read()
                raise error_of_response(response.status_code, response.headers, content)
            yield self._events(response, deadline)
        finally:
            response.close()

    def _events(self, response: httpx.Response, deadline: float | None) -> Iterator[Event]:
        sse, sequence = SseReader(), Sequence()
        with _translated(self._url, started=True):
            for data in response.iter_bytes():
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError
                for fields in sse.feed(data):
                    event = sequence.read(fields)
                    if event:
                        yield event
                    if sequence.finished:
                        return
        sequence.end()

    def models(self) -> list[Model]:
        with _translated(self._url):
            return _models(self._http.get("/v1/models"))

    def close(self) -> None:
        self._http.close()


class AsyncHttpTransport:
    """In asyncio."""

    def __init__(self, url: str, key: str | None, timeouts: Timeouts) -> None:
        self._url = url
        self._total_s = timeouts.total_s
        self._http = httpx.AsyncClient(**_settings(url, key, timeouts))

    @asynccontextmanager
    async def open(self, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[Event]]:
        loop = asyncio.get_running_loop()
        deadline = None if self._total_s is None else loop.time() + self._total_s
        request = self._http.build_request("POST", "/v1/generate", **_generate(body))
        with _translated(self._url):
            async with asyncio.timeout_at(deadline):
                response = await self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                with _translated(self._url):
                    content = await response.aread()
                raise error_of_response(response.status_code, response.headers, content)
            yield self._events(response, deadline)
        finally:
            await response.aclose()

    async def _events(
        self, response: httpx.Response, deadline: float | None
    ) -> AsyncIterator[Event]:
        sse, sequence = SseReader(), Sequence()
        chunks = response.aiter_bytes()
        while True:
            with _translated(self._url, started=True):
                async with asyncio.timeout_at(deadline):
                    data = await anext(chunks, b"")
            if not data:
                break
            for fields in sse.feed(data):
                event = sequence.read(fields)
                if event:
                    yield event
                if sequence.finished:
                    return
        sequence.end()

    async def models(self) -> list[Model]:
        with _translated(self._url):
            return _models(await self._http.get("/v1/models"))

    async def close(self) -> None:
        await self._http.aclose()
