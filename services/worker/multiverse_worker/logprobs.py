"""What is reported beside a token: logprobs of the model's own distribution.

log p(i) = x(i) - log sum exp x over the whole row, at temperature 1, before penalties, bias, bans
and truncation: what the model said, not what the draw was made from.
"""

from __future__ import annotations

import math

import numpy as np

from multiverse_worker.contract import Logits, Sampling, TopLogprobs
from multiverse_worker.truncation import most_probable


def report(
    logits: Logits, token: int, sampling: Sampling
) -> tuple[tuple[float, ...], tuple[TopLogprobs, ...]]:
    """Logprob of `token`, and the most probable ids, as far as they were asked for."""
    if not sampling.logprobs:
        return (), ()
    total = _log_sum(logits)
    own = (_logprob(logits, token, total),)
    if not sampling.top_logprobs:
        return own, ()
    ids = most_probable(logits, sampling.top_logprobs)
    return own, (TopLogprobs(ids, tuple(_logprob(logits, i, total) for i in ids)),)


def _log_sum(logits: Logits) -> float:
    """log sum exp of a row."""
    peak = logits.max()
    weights = np.exp(np.subtract(logits, peak, dtype=np.float64))
    return float(peak) + math.log(weights.sum())


def _logprob(logits: Logits, token: int, total: float) -> float:
    return float(logits[token]) - total
