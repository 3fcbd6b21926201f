"""The native API as the command uses it: events of one answer, or whole answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

CONNECT_TIMEOUT_S = 10.0


class ApiError(Exception):
    """The router refused the request or broke it off; the message is its own."""


def stream(url: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of one answer, as they come."""
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    try:
        with httpx.stream("POST", f"{url}/v1/generate", json=body, timeout=timeout) as response:
            if response.status_code != 200:
                response.read()
                raise ApiError(_message(response))
            for line in _lines(response):
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    if event["type"] == "error":
                        raise ApiError(event["message"])
                    yield event
                    if event["type"] == "finish":
                        return
        raise ApiError(f"the router at {url} broke the answer off")
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ApiError(f"no router at {url} ({error}); start one with `multiverse serve`") from None


async def generate(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """One whole answer: text, events, usage, finish_reason."""
    try:
        response = await client.post("/v1/generate", json={**body, "stream": False})
    except httpx.TransportError as error:
        raise ApiError(
            f"no router at {client.base_url} ({error}); start one with `multiverse serve`"
        ) from None
    if response.status_code != 200:
        raise ApiError(_message(response))
    try:
        answer: dict[str, Any] = response.json()
    except ValueError:
        raise ApiError(_message(response)) from None
    return answer


def _lines(response: httpx.Response) -> Iterator[str]:
    """Lines as server-sent events have them: `iter_lines` also cuts at U+2028 and the like."""
    rest = b""
    for data in response.iter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode() for line in lines)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}: {response.text[:200]}"
