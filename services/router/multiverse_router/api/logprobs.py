"""Logprobs as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from multiverse_router.events import TextEvent
from multiverse_router.logprobs import Probable, TokenLogprob


def choice_logprobs(events: Iterable[TextEvent]) -> dict[str, Any]:
    """The `logprobs` of a choice; tokens that the system wrote are flagged under `multiverse`."""
    entries = [_entry(entry) for event in events for entry in event.logprobs or ()]
    return {"content": entries, "refusal": None}


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    top = [_token(probable) for probable in entry.top]
    written = {"multiverse": {"written": True}} if entry.written else {}
    return {**_token(entry), "top_logprobs": top, **written}


def _token(entry: TokenLogprob | Probable) -> dict[str, Any]:
    """`bytes` is null where the token alone is no text."""
    whole = "\ufffd" not in entry.token
    data = list(entry.token.encode()) if whole else None
    return {"token": entry.token, "logprob": entry.logprob, "bytes": data}
