"""What the llama.cpp engine decodes is what transformers computes for the same model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from transformers import LlamaForCausalLM

from multiverse_shared.tree import Block, count
from multiverse_worker.contract import Sampling
from multiverse_worker.models.directory import ModelDirectory
from tests.conformance.oracle import Oracle, lay_out
from tests.integration.worker.reference import greedy
from tests.unit.worker.client import Client, Seen, text
from tests.unit.worker.llamas import logits_of

PROMPT = text(3, 14, 15, 92, 65, 35)
BLOCK = Block(((text(20, 21, 22),), (text(20, 31),), (text(20, 31, 40, 41),)))


@pytest.mark.parametrize("first", [1, 20, 40, 60, 80])
def test_greedy_tokens_are_those_of_transformers(
    client: Client, llama: LlamaForCausalLM, first: int
) -> None:
    prompt = text(first, *PROMPT.ids)
    expected = greedy(llama, prompt.ids, 24)
    assert len(expected) > 8
    assert client.run(prompt, max_tokens=24).ids[: len(expected)] == expected


def test_a_prompt_longer_than_a_batch_is_read_in_parts(
    client: Client, llama: LlamaForCausalLM
) -> None:
    prompt = text(*(number * 7 % 96 for number in range(150)))
    expected = greedy(llama, prompt.ids, 3)
    assert expected
    assert client.run(prompt, max_tokens=3).ids[: len(expected)] == expected


def test_a_tail_is_in_the_cache_when_the_end_is_said(
    client: Client, llama: LlamaForCausalLM
) -> None:
    """What goes on behind a tail computes only what it adds."""
    end = client.run(PROMPT, max_tokens=3, script=(50, 51, 52), length_tail=(7, 8)).finish
    on = client.run(text(9), base_key=end.key, max_tokens=8)
    assert on.finish.reused_tokens == 11
    expected = greedy(llama, (*PROMPT.ids, 50, 51, 52, 7, 8, 9), 8)
    assert expected
    assert on.ids[: len(expected)] == expected


def test_scripted_ids_are_taken_first_and_then_the_models_own(
    client: Client, llama: LlamaForCausalLM
) -> None:
    outcome = client.run(PROMPT, max_tokens=8, script=(50, 51))
    expected = greedy(llama, (*PROMPT.ids, 50, 51), 6)
    assert expected
    assert outcome.ids[:2] == (50, 51)
    assert outcome.ids[2 : 2 + len(expected)] == expected


def test_logprobs_are_those_of_transformers(client: Client, llama: LlamaForCausalLM) -> None:
    outcome = client.run(PROMPT, max_tokens=6, sampling=Sampling(logprobs=True))
    assert len(outcome.logprobs) == 6
    rows = logits_of(llama, (*PROMPT.ids, *outcome.ids)).astype(np.float64)
    for index, (token, got) in enumerate(zip(outcome.ids, outcome.logprobs, strict=True)):
        row = rows[count((PROMPT,)) - 1 + index]
        assert got == pytest.approx(row[token] - math.log(np.exp(row).sum()), abs=1e-4)


def test_a_join_is_exact_whether_its_paths_are_computed_or_held(
    client: Client, model: ModelDirectory
) -> None:
    context = (PROMPT, BLOCK, text(60, 61))
    expected = Oracle(model.path).logits(lay_out(context))
    seen = Seen.by(client.engine)
    computed = client.run(*context)
    client.engine.drop_cached()
    base = client.run(PROMPT)
    fields = {"base_key": base.finish.key, "block": base.start.branch}
    paths = [client.run(*path, **fields).finish.lease for path in BLOCK.paths]
    joined = client.run(*context, consumes=tuple(paths))
    for outcome in (computed, joined):
        assert seen.difference(outcome.start.branch, expected) < 1e-4
    assert joined.finish.key == computed.finish.key
