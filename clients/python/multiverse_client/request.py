"""What can be asked. docs/api.md has meanings and defaults; the server checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class Said(TypedDict):
    """What a server gave with an answer, given back."""

    context: str


class Message(TypedDict, total=False):
    """One turn of a chat: a role, and content or what the server said."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str
    multiverse: Said


class Options(TypedDict, total=False):
    """What is left out, or None, has the server's default."""

    model: str | None
    parallel: Literal["auto", "serial", "off"] | None
    max_tokens: int | None
    max_critical_tokens: int | None
    max_paths: int | None
    max_live_paths: int | None
    max_depth: int | None
    max_path_tokens: int | None
    max_goal_tokens: int | None
    max_blocks: int | None
    deadline_s: float | None
    token_ms: float | None
    priority: int | None
    return_context: bool | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    logit_bias: Mapping[int, float] | None
    logprobs: bool | None
    top_logprobs: int | None
    stop: str | Sequence[str] | None
    seed: int | None


def request_body(prompt: str | Sequence[Message], options: Options) -> dict[str, Any]:
    """A body of the native API."""
    asked = {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
    return asked | {name: value for name, value in options.items() if value is not None}
