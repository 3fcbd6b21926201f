"""Asks an OpenAI-compatible server. What only ours can do goes under `multiverse`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Protocol

import httpx

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Way:
    """How questions are asked. `multiverse` goes to our servers only; None: leave it out."""

    name: str
    multiverse: dict[str, Any] | None = None
    max_tokens: int = 2048
    temperature: float = 0.0
    top_p: float = 1.0
    words: str = ""  # put before the question

    def body(self, prompt: str, seed: int) -> dict[str, Any]:
        content = f"{self.words}\n\n{prompt}" if self.words else prompt
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": seed,
        }
        if self.multiverse is not None:
            body["multiverse"] = {"tags": "keep", **self.multiverse}
        return body

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What an answer depends on, beside the question, its seed and the model."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as the server gave it. None: the server did not say."""

    text: str
    finish_reason: str
    tokens: int
    seconds: float
    critical: int | None = None  # tokens on the longest chain
    irregular: dict[str, int] = field(default_factory=dict)  # what broke the dialect's grammar

    @property
    def ended(self) -> bool:
        """Whether the model came to its end by itself."""
        return self.finish_reason == "stop"


class Unanswered(Exception):
    """The server refused or failed, also when asked again."""


class Endpoint(Protocol):
    """Where questions go."""

    async def ask(self, way: Way, prompt: str, seed: int) -> Reply:
        """Unanswered when there is no answer."""
        ...


class OpenAiEndpoint:
    """A server at `url` (with or without `/v1`). Use as an async context manager."""

    def __init__(
        self,
        url: str,
        model: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 600.0,
        attempts: int = 4,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        base = url.rstrip("/")
        self._url = (base if base.endswith("/v1") else base + "/v1") + "/chat/completions"
        self._model = {"model": model} if model else {}
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        # As many connections as callers open: they bound themselves.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(
            timeout=timeout_s, headers=headers, limits=limits, trust_env=False
        )
        self._attempts = attempts
        self._first_wait_s = first_wait_s

    async def __aenter__(self) -> OpenAiEndpoint:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def ask(self, way: Way, prompt: str, seed: int) -> Reply:
        body = {**self._model, **way.body(prompt, seed)}
        wait_s, why = self._first_wait_s, ""
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            begun = time.perf_counter()
            try:
                response = await self._client.post(self._url, json=body)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}"
                continue
            seconds = time.perf_counter() - begun
            if response.status_code == 200:
                return _reply(response, seconds)
            why = f"status {response.status_code}: {response.text[:300]}"
            if response.status_code not in RETRIED:
                break
        raise Unanswered(why)


def _reply(response: httpx.Response, seconds: float) -> Reply:
    try:
        answer = response.json()
        choice = answer["choices"][0]
        message = choice["message"]
        thought = message.get("reasoning_content") or ""
        usage, ours = answer.get("usage") or {}, answer.get("multiverse") or {}
        return Reply(
            text=thought + (message.get("content") or ""),
            finish_reason=str(choice.get("finish_reason")),
            tokens=int(usage.get("completion_tokens") or 0),
            seconds=seconds,
            critical=ours.get("critical_path_tokens"),
            irregular=dict(ours.get("irregular") or {}),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unanswered(f"not a chat completion: {error!r}: {response.text[:300]}") from None
