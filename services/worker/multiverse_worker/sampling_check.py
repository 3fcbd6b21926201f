"""Sampling that no branch can be started with, and why."""

from __future__ import annotations

from math import isfinite

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Sampling
from multiverse_worker.logit_rules import ends

LARGEST = 1e6  # of what is added to logits: sums of it stay finite
_SHARES = ("top_p", "min_p")
_PENALTIES = ("presence_penalty", "frequency_penalty")


def check_sampling(sampling: Sampling, vocab_size: int) -> None:
    """InvalidRequest names the field. Ids of bans are checked with all other ids."""
    if not (isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise _invalid("temperature", "must be 0 or a positive number")
    for name in _SHARES:
        if not 0 <= getattr(sampling, name) <= 1:
            raise _invalid(name, "must be 0 to 1")
    for name in _PENALTIES:
        if not abs(getattr(sampling, name)) <= LARGEST:
            raise _invalid(name, f"must be -{LARGEST:.0f} to {LARGEST:.0f}")
    if not 1 / LARGEST <= sampling.repetition_penalty <= LARGEST:
        raise _invalid("repetition_penalty", f"must be {1 / LARGEST} to {LARGEST:.0f}; 1 is off")
    if not all(abs(bias) <= LARGEST for _, bias in sampling.logit_bias):
        raise _invalid("logit_bias", f"must be -{LARGEST:.0f} to {LARGEST:.0f}; use banned")
    if not all(0 <= token < vocab_size for token, _ in sampling.logit_bias):
        raise _invalid("logit_bias", f"token ids must be 0 to {vocab_size - 1}")
    if sampling.top_logprobs and not sampling.logprobs:
        raise _invalid("top_logprobs", "needs logprobs")
    if not all(sampling.banned):
        raise _invalid("banned", "a sequence needs at least one id")
    if _may_ban_all(sampling, vocab_size):
        raise _invalid("banned", "leaves no id that may be sampled; ban fewer")


def _may_ban_all(sampling: Sampling, vocab_size: int) -> bool:
    """Whether there is a place where every id is banned.

    There, the longest sequence that is about to be completed has all others as its ends.
    """
    if len(sampling.banned) < vocab_size:
        return False
    places = {ids[:-1] for ids in sampling.banned}
    return any(
        len({ids[-1] for ids in sampling.banned if ends(place, ids[:-1])}) == vocab_size
        for place in places
    )


def _invalid(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"sampling.{name} {what}", field=f"sampling.{name}")
