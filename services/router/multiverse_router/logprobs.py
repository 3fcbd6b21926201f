"""Logprobs of the tokens of an answer, from the worker's updates to the events they belong to.

A token may be told later than it was decoded (its path may be in the middle of a tag), so they
wait by path. What the system wrote has logprob 0.0 and is flagged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.effects import Kind, Tokens
from multiverse_shared.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class Probable:
    """One of the most probable tokens at a place."""

    id: int
    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of the answer; natural logarithm of its probability before truncation."""

    id: int
    token: str
    logprob: float
    top: tuple[Probable, ...] = ()  # most probable first
    written: bool = False  # by the system


class Logprobs:
    """Those of one answer."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._decode = tokenizer.decode
        self._pending: dict[str, deque[TokenLogprob]] = {}

    def read(self, path: str, update: pb.Update, index: int) -> None:
        """Keep what `update` says of the token number `index` in it."""
        self._pending.setdefault(path, deque()).append(self.entry(update, index))

    def entry(self, update: pb.Update, index: int) -> TokenLogprob:
        """What `update` says of the token number `index` in it."""
        token = update.ids[index]
        tops = update.top_logprobs[index : index + 1]
        probable = tuple(
            Probable(other, self._decode([other]), value)
            for top in tops
            for other, value in zip(top.ids, top.logprobs, strict=True)
        )
        return TokenLogprob(token, self._decode([token]), update.logprobs[index], probable)

    def take(self, tokens: Tokens) -> tuple[TokenLogprob, ...]:
        """One entry for each of `tokens`."""
        if tokens.kind is Kind.WRITTEN:
            return tuple(
                TokenLogprob(token, self._decode([token]), 0.0, written=True)
                for token in tokens.ids
            )
        pending = self._pending[tokens.path]
        return tuple(pending.popleft() for _ in tokens.ids)
