"""Clients that leave before their answer is there."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx

from tests.e2e.answers import chat_body


def after_events(url: str, prompt: str, count: int, **options: Any) -> None:
    """Read `count` events of a native stream (or all there are), and go."""
    body = {"prompt": prompt, **options}
    with httpx.stream("POST", f"{url}/v1/generate", json=body, timeout=60) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            count -= line.startswith("data: ")
            if count < 0:
                return


def after_chunks(url: str, prompt: str, count: int) -> None:
    """Read `count` chunks of an OpenAI stream, and go."""
    body = chat_body(prompt, stream=True)
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            count -= line.startswith("data: ")
            if count < 0:
                return


def connect(url: str, prompt: str, *, stream: bool = False) -> socket.socket:
    """Send a whole request, and read nothing; closing the socket is leaving."""
    parsed = httpx.URL(url)
    body = json.dumps({"prompt": prompt, "stream": stream}).encode()
    head = (
        f"POST /v1/generate HTTP/1.1\r\nhost: {parsed.host}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((parsed.host, parsed.port or 80), timeout=10)
    connection.sendall(head.encode() + body)
    return connection
