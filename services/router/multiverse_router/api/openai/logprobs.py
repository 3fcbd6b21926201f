"""Logprobs as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


class Columns:
    """Logprobs as the older API has them: a list for each property, one object for each piece."""

    def __init__(self, tops: int) -> None:
        self._tops = tops
        self._offset = 0

    def prompt(
        self, text: str, unknown: str | None, entries: Sequence[TokenLogprob]
    ) -> dict[str, Any]:
        """Of a prompt. `unknown` is a first token with nothing before it, so without a logprob."""
        columns = self._of(text, entries, len(unknown or ""))
        if unknown is not None:
            first: dict[str, Any] = {
                "tokens": unknown,
                "token_logprobs": None,
                "top_logprobs": None,
                "text_offset": 0,
            }
            for name, value in first.items():
                if columns[name] is not None:
                    columns[name].insert(0, value)
        return columns

    def answer(self, events: Iterable[TextEvent]) -> dict[str, Any]:
        """Of a piece of an answer."""
        columns: dict[str, Any] = self._of("", ())
        for event in events:
            for name, values in self._of(event.delta, event.logprobs or ()).items():
                if values is not None:
                    columns[name] += values
        return columns

    def _of(self, text: str, entries: Sequence[TokenLogprob], skipped: int = 0) -> dict[str, Any]:
        starts = list(_starts(text, [entry.token for entry in entries], skipped))
        offsets = [self._offset + start for start in starts]
        self._offset += len(text)
        return {
            "tokens": [entry.token for entry in entries],
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [_tops(entry) for entry in entries] if self._tops else None,
            "text_offset": offsets,
        }


def _starts(text: str, tokens: Sequence[str], start: int) -> Iterator[int]:
    """Where each token starts in `text`; some tokenizers leave spaces out.

    One that is not whole starts where the text ends that is known by then.
    """
    for token in tokens:
        found = text.find(token, start)
        if found > start and text[start:found].isspace():
            start = found
        yield start
        start = min(start + len(token), len(text))


def _tops(entry: TokenLogprob) -> dict[str, float]:
    """The most probable tokens, and the one that stands there."""
    tops: dict[str, float] = {}
    for probable in entry.top:
        tops.setdefault(probable.token, probable.logprob)
    tops.setdefault(entry.token, entry.logprob)
    return tops


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two objects of `Columns`, one behind the other."""
    return {
        name: second[name] if values is None else values + second[name]
        for name, values in first.items()
    }
