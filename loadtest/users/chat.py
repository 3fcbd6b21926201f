"""Users of OpenAI's API: short chats, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
from locust import task

from loadtest import prompts
from loadtest.meter import Meter
from loadtest.users.base import MeasuredUser, RefusedError, ToldError, api_key
from multiverse_client.sse import SseReader

PATH = "/v1/chat/completions"


class Chat(MeasuredUser):
    weight = 40
    api = "openai"

    @task
    def ask(self) -> None:
        body = {
            "messages": [{"role": "user", "content": prompts.chat(self.rng)}],
            "seed": self.rng.randrange(1 << 32),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        with self.measured() as meter, http(self.url).stream("POST", PATH, json=body) as answer:
            if answer.status_code != 200:
                answer.read()
                raise RefusedError(f"{answer.status_code} {answer.text[:200]}")
            self._read(_chunks(answer), meter)

    def _read(self, chunks: Iterator[dict[str, Any]], meter: Meter) -> None:
        """To the chunk with the usage, which is the last one."""
        said: dict[str, Any] = {}
        for chunk in chunks:
            if "error" in chunk:
                raise ToldError(chunk["error"]["message"])
            said |= chunk.get("multiverse", {})
            if any(choice["delta"].get("content") for choice in chunk["choices"]):
                meter.token(1)
            if usage := chunk.get("usage"):
                tokens, critical = usage["completion_tokens"], said["critical_path_tokens"]
                meter.usage(tokens, critical, said["parallelism"])
                return
        raise ValueError("the stream ended without its usage")


def _chunks(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    sse = SseReader()
    for data in answer.iter_bytes():
        yield from sse.feed(data.replace(b"data: [DONE]\n\n", b""))


@cache
def http(url: str) -> httpx.Client:
    """One for all users: making one takes as long as many requests."""
    key = api_key()
    return httpx.Client(
        base_url=url,
        headers={"authorization": f"Bearer {key}"} if key else {},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=50),
        timeout=httpx.Timeout(60.0),
        trust_env=False,
    )
