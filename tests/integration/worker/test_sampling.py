"""Sampling in a running engine: rules see what the branch sees, however it came to hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from transformers import LlamaForCausalLM

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Block, Context, linearise
from multiverse_worker.contract import FinishReason, Ids, Sampling
from tests.integration.worker import stream
from tests.integration.worker.served import PROMPT as SERVED_PROMPT
from tests.integration.worker.served import Worker
from tests.unit.worker.client import Client, Seen, text
from tests.unit.worker.llamas import logits_of

PROMPT = text(3, 14, 15, 92, 65, 35)
BLOCK = Block(((text(20, 21, 22),), (text(20, 31),), (text(20, 31, 40, 41),)))
PENALTIES: dict[str, Any] = {"presence_penalty": 0.5, "frequency_penalty": 1.5}
VOCAB = 96


def penalised(row: np.ndarray, seen: Ids, sampling: Sampling) -> int:
    """The greedy token of a row, from the formulas."""
    wide = row.astype(np.float64)
    for token in set(seen):
        repetition = sampling.repetition_penalty
        wide[token] = wide[token] / repetition if wide[token] > 0 else wide[token] * repetition
        wide[token] -= sampling.frequency_penalty * seen.count(token) + sampling.presence_penalty
    return int(wide.argmax())


def test_penalised_tokens_are_those_of_transformers(
    client: Client, llama: LlamaForCausalLM
) -> None:
    """What the prompt has does not count, what was generated before the branch does."""
    sampling = Sampling(**PENALTIES, repetition_penalty=1.3, penalised_from=6)
    outcome = client.run(PROMPT, text(50, 51), max_tokens=12, sampling=sampling)
    assert outcome.ids != client.run(PROMPT, text(50, 51), max_tokens=12).ids
    ids: Ids = (*PROMPT.ids, 50, 51)
    for token in outcome.ids:
        assert token == penalised(logits_of(llama, ids)[-1], ids[6:], sampling)
        ids = (*ids, token)


def test_behind_a_block_the_tokens_of_all_its_paths_count(client: Client) -> None:
    sampling = Sampling(**PENALTIES, penalised_from=6)
    seen = Seen.by(client.engine)
    context: Context = (PROMPT, BLOCK, text(7))
    branch = client.start(*context, max_tokens=8, sampling=sampling)
    ids = linearise(context)
    for token in client.outcome(branch).ids:
        assert token == penalised(seen.rows[branch][len(ids) - 1], ids[6:], sampling)
        ids = (*ids, token)


def penalised_path(client: Client, **changes: Any) -> list[Ids]:
    """A path behind a plan of 12 tokens, from its base and sent in full."""
    sampling = Sampling(**PENALTIES, repetition_penalty=1.2, penalised_from=6, **changes)
    plan = client.run(PROMPT, max_tokens=12)
    options: dict[str, Any] = {"max_tokens": 10, "sampling": sampling}
    based = client.run(text(20, 1), base_key=plan.finish.key, **options).ids
    full = client.run(PROMPT, text(*plan.ids), text(20, 1), **options).ids
    client.engine.drop_cached()
    computed = client.run(PROMPT, text(*plan.ids), text(20, 1), **options).ids
    return [based, full, computed]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_base_counts_as_if_it_were_sent_and_cached_as_if_computed(
    client: Client, temperature: float
) -> None:
    based, full, computed = penalised_path(client, temperature=temperature, seed=4)
    assert based == full == computed


def test_from_any_token_on_a_penalised_branch_goes_on_alike(client: Client) -> None:
    options: dict[str, Any] = {**PENALTIES, "temperature": 1.0, "penalised_from": 6, "seed": 9}
    whole = client.run(PROMPT, max_tokens=12, sampling=Sampling(**options)).ids
    for told in (1, 7):
        sampling = Sampling(**options, draws=told)
        rest = client.run(PROMPT, text(*whole[:told]), max_tokens=12 - told, sampling=sampling)
        assert rest.ids == whole[told:]


def test_scripted_tokens_count_for_penalties(client: Client) -> None:
    options: dict[str, Any] = {"sampling": Sampling(**PENALTIES, penalised_from=6)}
    script = (50, 51, 50, 51)
    scripted = client.run(PROMPT, max_tokens=10, script=script, **options).ids
    sent = client.run(PROMPT, text(*script), max_tokens=6, **options).ids
    assert scripted == script + sent


def test_bias_forces_and_bans_a_token(client: Client) -> None:
    forced = client.run(PROMPT, max_tokens=4, sampling=Sampling(logit_bias=((77, 100.0),)))
    assert forced.ids == (77,) * 4
    free = client.run(PROMPT, max_tokens=4).ids
    banned = Sampling(logit_bias=tuple((token, -100.0) for token in set(free)))
    assert not set(client.run(PROMPT, max_tokens=4, sampling=banned).ids) & set(free)


def test_min_p_of_one_is_greedy(client: Client) -> None:
    greedy = client.run(PROMPT, max_tokens=8).ids
    assert client.run(PROMPT, max_tokens=8, sampling=Sampling(2.0, min_p=1.0)).ids == greedy


def test_top_logprobs_are_those_of_the_raw_logits(client: Client, llama: LlamaForCausalLM) -> None:
    sampling = Sampling(1.5, 0.9, logprobs=True, top_logprobs=4, **PENALTIES)
    branch = client.start(PROMPT, max_tokens=5, sampling=sampling)
    updates = []
    while not client.engine.idle:
        updates += client.engine.step()
    ids = sum((update.ids for update in updates if update.branch == branch), ())
    tops = sum((update.top_logprobs for update in updates), ())
    assert len(ids) == len(tops) == 5
    rows = logits_of(llama, (*PROMPT.ids, *ids)).astype(np.float64)[5:]
    for row, top in zip(rows, tops, strict=False):
        exact = row - np.log(np.exp(row).sum())
        assert list(top.ids) == np.argsort(-row)[:4].tolist()
        assert top.logprobs == pytest.approx(exact[list(top.ids)].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(banned=tuple((token,) for token in range(VOCAB))), "sampling.banned"),
        (Sampling(logit_bias=((VOCAB, 1.0),)), "sampling.logit_bias"),
        (Sampling(float("nan")), "sampling.temperature"),
    ],
    ids=["all banned", "bias outside", "not a number"],
)
def test_what_can_not_be_sampled_is_refused_at_the_start(
    client: Client, sampling: Sampling, field: str
) -> None:
    finish = client.run(PROMPT, max_tokens=3, sampling=sampling).finish
    assert finish.reason is FinishReason.FAILED
    assert isinstance(finish.error, InvalidRequest)
    assert finish.error.field == field


async def test_everything_that_was_asked_for_arrives_over_the_wire(worker: Worker) -> None:
    """Penalties alone make a branch that repeats one biased token leave it."""
    run = worker.stream()
    sampling = pb.Sampling(
        logit_bias={77: 50},
        frequency_penalty=30,
        penalised_from=4,
        banned=[pb.Ids(ids=[77, 77])],
        logprobs=True,
        top_logprobs=2,
    )
    await run.start(1, stream.text(*SERVED_PROMPT), sampling=sampling, max_tokens=4)
    await run.ended(1)
    updates = [update for frame in run.frames for update in frame.updates]
    assert run.ids[1][0] == 77
    assert run.ids[1][1] != 77
    assert run.ids[1].count(77) <= 2
    assert sum(len(update.logprobs) for update in updates) == 4
    assert [len(top.ids) for update in updates for top in update.top_logprobs] == [2] * 4
