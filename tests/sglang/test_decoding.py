"""One branch: stops, tails, bans, logprobs, seeds, positions of its own."""

from __future__ import annotations

import numpy as np
import pytest

from multiverse_shared.effects import Stop
from multiverse_shared.tree import Block, Text, count
from multiverse_worker.contract import FinishReason, Sampling
from multiverse_worker.sampling import Sampler
from tests.conformance.oracle import Oracle, lay_out
from tests.sglang.player import Player, assert_greedy
from tests.unit.worker.client import text

HOT = 4.0  # a temperature: the model is so sure that cooler draws are alike
PROMPT = text(3, 14, 15, 92, 65)


def test_a_plain_branch_decodes_what_the_oracle_decodes(player: Player, oracle: Oracle) -> None:
    outcome = player.run(PROMPT, max_tokens=12)
    assert len(outcome.ids) == 12
    assert outcome.finish.reason is FinishReason.LENGTH
    assert_greedy(oracle, (PROMPT,), outcome)


def test_a_stop_of_several_ids_ends_the_branch_behind_it_and_its_tail_follows(
    player: Player,
) -> None:
    stops = (Stop((90, 91)), Stop((7, 8), tail=(20, 21)))
    script = (5, 7, 9, 7, 8, 1, 1)
    outcome = player.run(PROMPT, max_tokens=7, script=script, stops=stops)
    assert outcome.ids == (5, 7, 9, 7, 8)
    finish = outcome.finish
    assert (finish.reason, finish.stop, finish.appended) == (FinishReason.STOP, 1, (20, 21))
    assert finish.context_tokens == 5 + 5 + 2
    again = player.run(PROMPT, text(5, 7, 9, 7, 8, 20, 21, 30), max_tokens=1)
    assert again.finish.reused_tokens == 12  # the tail is computed and held


def test_a_dropped_stop_is_no_part_of_the_context(player: Player) -> None:
    stops = (Stop((8,), tail=(20,), keep=False),)
    outcome = player.run(PROMPT, max_tokens=7, script=(5, 8, 1), stops=stops)
    assert outcome.ids == (5, 8)
    assert outcome.finish.context_tokens == 5 + 1 + 1
    again = player.run(PROMPT, text(5, 20, 30), max_tokens=1)
    assert again.finish.reused_tokens == 7


def test_a_branch_without_tokens_to_sample_is_only_held(player: Player) -> None:
    outcome = player.run(PROMPT, max_tokens=0, length_tail=(1, 2))
    assert outcome.ids == ()
    assert outcome.finish.context_tokens == 7
    again = player.run(PROMPT, text(1, 2), max_tokens=0)
    assert again.finish.reused_tokens == 7
    assert again.finish.key == outcome.finish.key


def test_banned_sequences_are_not_sampled(player: Player) -> None:
    free = player.run(PROMPT, max_tokens=6).ids
    one = player.run(PROMPT, max_tokens=6, sampling=Sampling(banned=((free[0],),))).ids
    assert one[0] != free[0]
    pair = player.run(PROMPT, max_tokens=6, sampling=Sampling(banned=(free[1:3],))).ids
    assert pair[:2] == free[:2]
    assert pair[2] != free[2]
    triple = player.run(PROMPT, max_tokens=6, sampling=Sampling(banned=(free[1:4],))).ids
    assert triple[:3] == free[:3]
    assert triple[3] != free[3]


def test_logprobs_are_those_of_the_oracle(player: Player, oracle: Oracle) -> None:
    outcome = player.run(PROMPT, max_tokens=8, sampling=Sampling(1.0, seed=3, logprobs=True))
    assert len(outcome.logprobs) == 8
    rows = oracle.logits(lay_out((PROMPT, Text(outcome.ids)))).astype(np.float64)
    for offset, (token, value) in enumerate(zip(outcome.ids, outcome.logprobs, strict=True)):
        row = rows[4 + offset]
        expected = row[token] - row.max() - np.log(np.exp(row - row.max()).sum())
        assert value == pytest.approx(expected, abs=1e-4)


def test_penalties_bias_and_truncation_are_those_of_the_one_row_sampler(
    player: Player, oracle: Oracle
) -> None:
    sampling = Sampling(
        0.8,
        top_p=0.95,
        top_k=30,
        min_p=0.01,
        seed=5,
        frequency_penalty=0.5,
        repetition_penalty=1.2,
        penalised_from=2,
        logit_bias=((5, 2.0), (6, -3.0)),
    )
    outcome = player.run(PROMPT, max_tokens=16, sampling=sampling)
    rows = oracle.logits(lay_out((PROMPT, Text(outcome.ids))))
    sampler = Sampler(sampling, PROMPT.ids[2:])
    for at, token in enumerate(outcome.ids):
        assert sampler.next(rows[len(PROMPT.ids) - 1 + at], outcome.ids[:at]) == token
        sampler.take(token)


def test_a_draw_depends_on_seed_path_and_index_only(player: Player) -> None:
    sampling = Sampling(HOT, seed=11, stream="0.1")
    alone = player.run(PROMPT, max_tokens=10, sampling=sampling).ids
    others = [
        player.start(PROMPT, max_tokens=10, sampling=Sampling(HOT, seed=11, stream=f"0.{n}"))
        for n in range(1, 6)
    ]
    beside = [player.outcome(branch).ids for branch in others]
    assert beside[0] == alone
    assert len(set(beside)) == 5
    rest = Sampling(HOT, seed=11, stream="0.1", draws=4)
    assert player.run(PROMPT, Text(alone[:4]), max_tokens=6, sampling=rest).ids == alone[4:]


def test_paths_with_offsets_stand_where_the_tree_says(player: Player) -> None:
    """Positions need not be consecutive: offsets of a dialect, texts with a start."""
    block = Block(((text(7, 8),), (text(9),)), path_offset=2, join_offset=3)
    shifted = player.run(PROMPT, block, text(10, 11), max_tokens=4)
    explicit = Block(((Text((7, 8), start=7),), (Text((9,), start=7),)))
    same = player.run(PROMPT, explicit, Text((10, 11), start=12), max_tokens=4)
    assert shifted.ids == same.ids
    plain = player.run(PROMPT, Block(((text(7, 8),), (text(9),))), text(10, 11), max_tokens=4)
    assert plain.finish.key != shifted.finish.key
    assert shifted.finish.context_tokens == count((PROMPT, block)) + 2 + 4


def test_the_time_of_a_step_is_kept_by_the_number_of_branches_that_decode(player: Player) -> None:
    for number in range(3):
        player.start(text(number, number), request=f"{number}", max_tokens=8)
    player.settle()
    player.run(text(9), max_tokens=5)
    step_ms = dict(player.engine.load().step_ms)
    assert 1 in step_ms
    assert step_ms.keys() & {3, 4}  # a mean: others have used this engine before
    assert len({(size - 1).bit_length() for size in step_ms}) == len(step_ms)
    assert all(0 < ms < 10_000 for ms in step_ms.values())
