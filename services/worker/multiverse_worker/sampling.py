"""Drawing the next token from a row of logits.

Randomness is counter-based: the draw with index i of a path is a function of (seed, path, i),
so a replay from any token goes on alike. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from multiverse_worker.contract import Ids, Logits, Sampling

_FIRST_CANDIDATES = 128


def uniform(seed: int, stream: str, index: int) -> float:
    """A number in [0, 1) that depends on the three and on nothing else."""
    state = blake2b(digest_size=8, person=b"draw")
    state.update(seed.to_bytes(8, "little"))
    state.update(index.to_bytes(8, "little"))
    state.update(stream.encode())
    return (int.from_bytes(state.digest(), "little") >> 11) * 2.0**-53


def sample(logits: Logits, sampling: Sampling, index: int, sampled: Sequence[int] = ()) -> int:
    """The token id drawn from one row of logits [vocab].

    `index` counts the branch's draws, `sampled` are the ids it has drawn.
    """
    banned = [ids[-1] for ids in sampling.banned if _follows(ids[:-1], sampled)]
    if banned:
        logits = logits.copy()
        logits[banned] = -np.inf
    if sampling.temperature <= 0:
        return int(logits.argmax())
    with np.errstate(over="ignore"):  # a vanishing temperature: all but the largest are -inf
        scaled = (logits - logits.max()) / np.float32(sampling.temperature)
    probabilities, ids = _candidates(scaled, sampling)
    point = uniform(sampling.seed, sampling.stream, sampling.draws + index)
    cumulative = probabilities.cumsum()
    at = int(np.searchsorted(cumulative, point * cumulative[-1], side="right"))
    return int(ids[min(at, len(ids) - 1)])


def _follows(ids: Ids, sampled: Sequence[int]) -> bool:
    """Whether `sampled` ends with `ids`."""
    return not ids or tuple(sampled[-len(ids) :]) == ids


def logprob(logits: Logits, token: int) -> float:
    """Natural logarithm of the probability of `token` under one row of logits."""
    peak = logits.max()
    total = np.log(np.exp(logits - peak, dtype=np.float64).sum())
    return float(logits[token] - peak - total)


def _candidates(
    scaled: Logits, sampling: Sampling
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Probabilities and ids left by top-k and top-p, most probable first, lower id on ties.

    Only as many entries are sorted as the nucleus needs.
    """
    vocab = len(scaled)
    weights = np.exp(scaled, dtype=np.float64)
    keep = sampling.top_k if 0 < sampling.top_k < vocab else vocab
    nucleus = sampling.top_p if 0 < sampling.top_p < 1 else 1.0
    width = min(keep, vocab if nucleus == 1.0 else _FIRST_CANDIDATES)
    total = weights.sum() if keep == vocab else np.partition(weights, vocab - keep)[-keep:].sum()
    while True:
        ids = _largest(weights, width)
        chosen = weights[ids]
        if nucleus == 1.0:
            return chosen, ids
        if width == keep or chosen.sum() >= nucleus * total:
            last = int(np.searchsorted(chosen.cumsum(), nucleus * total)) + 1
            return chosen[:last], ids[:last]
        width = min(keep, width * 4)


def _largest(
    weights: np.ndarray[tuple[int], np.dtype[np.float64]], width: int
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Ids of the `width` largest weights, largest first, lower id on ties."""
    if width < len(weights):
        threshold = np.partition(weights, len(weights) - width)[len(weights) - width]
        ids = np.flatnonzero(weights >= threshold)
    else:
        ids = np.arange(len(weights))
    return ids[np.argsort(-weights[ids], kind="stable")][:width]
