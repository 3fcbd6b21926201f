"""Users that a router has to bear: they leave, read slowly, or send what is wrong.

What they do is no failure; what the router answers to it may be one.
"""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import gevent
from locust import task

from loadtest import prompts
from loadtest.users.answers import MAX_TOKENS
from loadtest.users.base import MeasuredUser, RefusedError, client
from loadtest.users.chat import http

SLOW_READS = 10
SLOW_S = 0.5

BAD: list[tuple[str, bytes]] = [
    ("/v1/generate", b"{"),
    ("/v1/generate", b'{"prompt": "\xff"}'),
    ("/v1/generate", b'{"prompt": "x", "max_tokens": -1}'),
    ("/v1/generate", b'{"prompt": "x", "prompt": "y"}'),
    ("/v1/generate", b"[" * 100_000),
    ("/v1/generate", b'{"prompt": "x", "model": "other"}'),
    ("/v1/chat/completions", b'{"messages": []}'),
    ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": 7}]}'),
    ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "x"}], "n": 100000}'),
    ("/v1/messages", b'{"model": "x"}'),
    ("/v1/completions", b'{"prompt": [[]], "max_tokens": 1}'),
    ("/no/such/route", b"{}"),
]


class BadInput(MeasuredUser):
    """Sends what is no request. Anything but a 4xx is a failure."""

    weight = 6
    api = "abuse"

    @task
    def ask(self) -> None:
        path, content = self.rng.choice(BAD)
        kind = {"content-type": "application/json"}
        with self.measured():
            answer = http(self.url).post(path, content=content, headers=kind)
            if not 400 <= answer.status_code < 500:
                raise RefusedError(f"{answer.status_code} to {content[:60]!r} at {path}")


class Leaver(MeasuredUser):
    """Leaves after some events, or before the first."""

    weight = 6
    api = "abuse"

    @task
    def ask(self) -> None:
        left = self.rng.choice((0, 1, 3, 10, 30))
        with self.measured() as meter:
            asked: dict[str, Any] = {"seed": self.rng.randrange(1 << 32), "max_tokens": MAX_TOKENS}
            with client(self.url).stream(prompts.forks(self.rng), **asked) as events:
                for number, event in enumerate(events):
                    if number >= left:
                        return
                    meter.saw(event)


class SlowReader(MeasuredUser):
    """Takes a few bytes at a time, and leaves before the end."""

    weight = 4
    api = "abuse"

    @task
    def ask(self) -> None:
        body = json.dumps({"prompt": prompts.forks(self.rng), "max_tokens": MAX_TOKENS}).encode()
        at = urlsplit(self.url)
        head = (
            f"POST /v1/generate HTTP/1.1\r\nhost: {at.netloc}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        with self.measured(), socket.create_connection((at.hostname, at.port), 30) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head.encode() + body)
            status = connection.recv(12)
            if status != b"HTTP/1.1 200":
                raise RefusedError(status.decode("latin-1"))
            for _ in range(SLOW_READS):
                connection.recv(64)
                gevent.sleep(SLOW_S)
