"""What is done to the logits of one branch before a draw: penalties, bias, bans.

For an id that stands n > 0 times in what the penalties count, with logit x:

    x := x / repetition_penalty  where x > 0, else  x * repetition_penalty
    x := x - frequency_penalty * n - presence_penalty

then logit_bias is added to the ids it names, then banned ids get -inf: no bias brings one back.
Penalties count the ids of the branch's context from linear index `penalised_from` on (what stands
before is the prompt) and all that the branch has taken, drawn or scripted. They are a function of
context and tokens alone: a replay, or a branch computed again, has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from multiverse_worker.contract import Ids, Logits, Sampling

_ROOM = 64


class Counts:
    """How often each id was seen; `ids` and `times` stand side by side."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._slots: dict[int, int] = {}
        self._ids = np.zeros(_ROOM, np.intp)
        self._times = np.zeros(_ROOM)
        for token in ids:
            self.add(token)

    def add(self, token: int) -> None:
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._times = np.concatenate([self._times, np.zeros_like(self._times)])
        self._ids[slot] = token
        self._times[slot] += 1

    @property
    def ids(self) -> NDArray[np.intp]:
        return self._ids[: len(self._slots)]

    @property
    def times(self) -> NDArray[np.float64]:
        return self._times[: len(self._slots)]


class LogitRules:
    """The rules of one branch; `seen` are the ids of its context that penalties count."""

    def __init__(self, sampling: Sampling, seen: Iterable[int] = ()) -> None:
        self._sampling = sampling
        self._counts = Counts(seen) if penalises(sampling) else None
        self._biased = np.array([token for token, _ in sampling.logit_bias], np.intp)
        self._bias = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        self._banned = [ids[0] for ids in sampling.banned if len(ids) == 1]
        self._sequences = [(ids[:-1], ids[-1]) for ids in sampling.banned if len(ids) > 1]

    def take(self, token: int) -> None:
        """The branch has taken `token`."""
        if self._counts:
            self._counts.add(token)

    def apply(self, logits: Logits, taken: Sequence[int]) -> Logits:
        """The logits to draw from; `logits` [vocab] itself when no rule bears on it."""
        banned = self._banned + [last for before, last in self._sequences if ends(taken, before)]
        if not banned and self._counts is None and not len(self._biased):
            return logits
        logits = logits.copy()
        if self._counts:
            self._penalise(logits, self._counts)
        logits[self._biased] += self._bias
        logits[banned] = -np.inf
        return logits

    def _penalise(self, logits: Logits, counts: Counts) -> None:
        sampling = self._sampling
        values = logits[counts.ids].astype(np.float64)
        repetition = sampling.repetition_penalty
        values = np.where(values > 0, values / repetition, values * repetition)
        values -= sampling.frequency_penalty * counts.times + sampling.presence_penalty
        logits[counts.ids] = values


def penalises(sampling: Sampling) -> bool:
    """Whether what was seen bears on what is drawn."""
    return bool(
        sampling.presence_penalty
        or sampling.frequency_penalty
        or sampling.repetition_penalty != 1.0
    )


def ends(taken: Sequence[int], ids: Ids) -> bool:
    """Whether `taken` ends with `ids`."""
    return not ids or tuple(taken[-len(ids) :]) == ids
