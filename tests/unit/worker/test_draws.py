"""Draws from a batch are those that the one-row sampler makes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_worker.contract import Ids, Sampling
from multiverse_worker.engines.sglang.draws import Draw, draw, told
from multiverse_worker.logit_rules import penalises
from multiverse_worker.logprobs import report
from multiverse_worker.sampling import Sampler

VOCAB = 200
NONE = torch.zeros(0, dtype=torch.int64)
ids = st.integers(0, VOCAB - 1)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.0, 0.2, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3, 40, 500]),
    min_p=st.sampled_from([0.0, 0.0, 0.1, 1.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.0, -0.7]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3]),
    logit_bias=st.lists(
        st.tuples(ids, st.sampled_from([-5.0, 4.0])), max_size=3, unique_by=lambda x: x[0]
    ).map(tuple),
    banned=st.lists(st.lists(ids, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple),
    seed=st.integers(0, 2**64 - 1),
    stream=st.sampled_from(["", "0.1", "0.2"]),
    draws=st.integers(0, 5),
)
taken = st.lists(ids, max_size=4).map(tuple)


def logits_of(seed: int, rows: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, VOCAB)).astype(np.float32)


def alone(logits: np.ndarray, sampling: Sampling, seen: Ids, before: Ids) -> int:
    sampler = Sampler(sampling, seen)
    for token in before:
        sampler.take(token)
    return sampler.next(logits, before)


@given(
    st.lists(st.tuples(samplings, taken, taken), min_size=1, max_size=5),
    st.integers(0, 1000),
    st.booleans(),
)
@settings(deadline=None)
def test_a_batch_draws_what_each_row_would_draw_alone(
    rows: list[tuple[Sampling, Ids, Ids]], seed: int, late: bool
) -> None:
    """Also when the last token of each has not reached the host."""
    logits = logits_of(seed, len(rows))
    inputs = torch.tensor([before[-1] if before else 0 for _, _, before in rows])
    draws = []
    for row, (sampling, seen, before) in enumerate(rows):
        known = before[:-1] if late else before
        last = row if late and before else None
        counts = Counter((*seen, *known)) if penalises(sampling) else None
        draws.append(Draw(row, sampling, len(before), known, counts, last))
    assert draw(torch.from_numpy(logits), inputs, draws).tolist() == [
        alone(logits[row], sampling, seen, before)
        for row, (sampling, seen, before) in enumerate(rows)
    ]


@pytest.mark.parametrize("before", [(), (7,), (1, 2), (2, 3), (1, 2, 3)])
def test_bans_hold_whether_the_last_token_has_reached_the_host_or_not(before: Ids) -> None:
    logits = logits_of(5, 1)
    order = np.argsort(-logits[0]).tolist()
    sampling = Sampling(banned=((order[0],), (3, order[1]), (2, 3, order[2]), (1, 2, order[3])))
    expected = alone(logits[0], sampling, (), before)
    assert draw(torch.from_numpy(logits), NONE, [Draw(0, sampling, 0, before)]) == expected
    if before:
        inputs = torch.tensor([99, before[-1]])
        late = Draw(0, sampling, 0, before[:-1], last_row=1)
        assert draw(torch.from_numpy(logits), inputs, [late]) == expected


def test_a_penalty_counts_a_token_that_has_not_reached_the_host() -> None:
    logits = logits_of(9, 1)
    best = int(logits[0].argmax())
    sampling = Sampling(frequency_penalty=100.0)
    late = Draw(0, sampling, 1, (), Counter(), last_row=1)
    drawn = draw(torch.from_numpy(logits), torch.tensor([0, best]), [late]).tolist()
    assert drawn == [alone(logits[0], sampling, (), (best,))] != [best]


def test_a_forced_token_is_taken_and_its_neighbours_are_not_touched() -> None:
    logits = torch.from_numpy(logits_of(6, 3))
    before = logits.clone()
    draws = [Draw(0, Sampling(), 0, ()), Draw(2, Sampling(), 0, (), forced=11)]
    assert draw(logits, NONE, draws).tolist() == [int(before[0].argmax()), 11]
    assert torch.equal(logits, before)


def test_what_is_told_is_what_the_one_row_report_says() -> None:
    logits = logits_of(7, 4)
    asked = [Sampling(logprobs=True, top_logprobs=n) for n in (0, 3, 5)]
    draws = [Draw(row + 1, sampling, 0, ()) for row, sampling in enumerate(asked)]
    draws.append(Draw(0, Sampling(), 0, ()))
    drawn = torch.tensor([4, 9, 2, 1])
    rows = told(torch.from_numpy(logits), draws, drawn)
    assert rows is not None
    by_row = dict(rows.rows())
    assert sorted(by_row) == [1, 2, 3]
    for at, sampling in enumerate(asked):
        own, top = by_row[at + 1]
        expected_own, expected_top = report(logits[at + 1], int(drawn[at]), sampling)
        assert own == pytest.approx(expected_own)
        assert [t.ids for t in top] == [t.ids for t in expected_top]
        assert [t.logprobs for t in top] == [pytest.approx(t.logprobs) for t in expected_top]


def test_nothing_is_told_that_nobody_asked_for() -> None:
    logits = torch.from_numpy(logits_of(8, 1))
    assert told(logits, [Draw(0, Sampling(), 0, ())], torch.tensor([1])) is None
