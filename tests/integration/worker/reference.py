"""What transformers writes, and where it is too close to call."""

from __future__ import annotations

import numpy as np
from transformers import LlamaForCausalLM

from multiverse_worker.contract import Ids
from tests.unit.worker.llamas import logits_of

NEAR_TIE = 1e-3  # a gap of the top two logits below which either token is right


def greedy(llama: LlamaForCausalLM, prompt: Ids, tokens: int) -> Ids:
    """Greedy tokens behind a plain prompt, up to the first near-tie."""
    written: list[int] = []
    for _ in range(tokens):
        row = logits_of(llama, (*prompt, *written))[-1]
        second, first = np.sort(row)[-2:]
        if first - second < NEAR_TIE:
            break
        written.append(int(row.argmax()))
    return tuple(written)
