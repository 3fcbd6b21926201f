"""Penalties, bias and bans: what they do to logits, in which order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_worker.contract import Ids, Logits, Sampling
from multiverse_worker.logit_rules import Counts, LogitRules
from multiverse_worker.sampling import Sampler
from tests.unit.worker.properties import examples

LOGITS = np.array([2.0, -2.0, 0.0, 4.0, 1.0, -1.0], np.float32)


def changed(sampling: Sampling, seen: Ids = (), taken: Ids = ()) -> list[float]:
    rules = LogitRules(sampling, seen)
    for token in taken:
        rules.take(token)
    out: list[float] = rules.apply(LOGITS, taken).tolist()
    return out


def test_presence_is_subtracted_once_from_what_was_seen() -> None:
    got = changed(Sampling(presence_penalty=0.5), seen=(0, 0, 3), taken=(1,))
    assert got == [1.5, -2.5, 0.0, 3.5, 1.0, -1.0]


def test_frequency_is_subtracted_as_often_as_it_was_seen() -> None:
    got = changed(Sampling(frequency_penalty=0.5), seen=(0, 0, 3), taken=(0, 1))
    assert got == [0.5, -2.5, 0.0, 3.5, 1.0, -1.0]


def test_repetition_divides_positive_and_multiplies_negative_logits() -> None:
    got = changed(Sampling(repetition_penalty=2.0), seen=(0, 1, 2), taken=(0,))
    assert got == [1.0, -4.0, 0.0, 4.0, 1.0, -1.0]


def test_penalties_below_zero_and_one_favour_what_was_seen() -> None:
    got = changed(Sampling(presence_penalty=-1.0, repetition_penalty=0.5), seen=(0, 1))
    assert got == [5.0, 0.0, 0.0, 4.0, 1.0, -1.0]


def test_repetition_comes_before_what_is_subtracted_and_bias_comes_last() -> None:
    sampling = Sampling(
        presence_penalty=1.0,
        frequency_penalty=0.25,
        repetition_penalty=2.0,
        logit_bias=((0, 8.0), (5, 0.5)),
    )
    assert changed(sampling, seen=(0, 0)) == [2 / 2 - 1 - 0.5 + 8, -2.0, 0.0, 4.0, 1.0, -0.5]


def test_no_bias_brings_a_banned_id_back() -> None:
    sampling = Sampling(logit_bias=((3, 1e6),), banned=((3,),))
    assert changed(sampling)[3] == -np.inf


def test_a_sequence_bans_its_last_id_behind_the_others_only() -> None:
    sampling = Sampling(banned=((4, 5, 3), (5, 0)))
    assert changed(sampling, taken=(5,)) == [-np.inf, *LOGITS[1:].tolist()]
    assert changed(sampling, taken=(4, 5)) == [-np.inf, -2.0, 0.0, -np.inf, 1.0, -1.0]
    assert changed(sampling, taken=(4, 5, 5))[3] == 4.0
    assert changed(sampling) == LOGITS.tolist()


def test_banned_ids_are_never_drawn() -> None:
    banned = tuple((token,) for token in range(6) if token not in (1, 5))
    samplers = [Sampler(Sampling(5.0, banned=banned, seed=seed)) for seed in range(50)]
    assert {sampler.next(LOGITS, ()) for sampler in samplers} == {1, 5}


@pytest.mark.parametrize(
    "sampling",
    [Sampling(banned=((3,),)), Sampling(logit_bias=((3, -9.0),)), Sampling(presence_penalty=9.0)],
    ids=["banned", "bias", "penalty"],
)
def test_the_row_stays_as_it_is(sampling: Sampling) -> None:
    """Logprobs and observers read it, too."""
    before = LOGITS.copy()
    assert Sampler(sampling, (3,)).next(LOGITS, ()) == 0
    assert (before == LOGITS).all()


def test_without_rules_the_row_is_not_copied() -> None:
    assert LogitRules(Sampling(1.0, 0.9, 40)).apply(LOGITS, (1, 2)) is LOGITS


@examples(60)
@given(st.lists(st.integers(0, 300), max_size=400))
def test_counts_are_those_of_a_counter(ids: list[int]) -> None:
    half = len(ids) // 2
    counts = Counts(ids[:half])
    for token in ids[half:]:
        counts.add(token)
    times: Logits = counts.times
    assert dict(zip(counts.ids.tolist(), times.tolist(), strict=True)) == Counter(ids)
