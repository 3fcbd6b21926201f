"""What is reported beside a token."""

from __future__ import annotations

import numpy as np
import pytest

from multiverse_worker.contract import Logits, Sampling
from multiverse_worker.logprobs import report


def row(vocab: int = 300) -> Logits:
    return (np.random.default_rng(1).standard_normal(vocab) * 3).astype(np.float32)


def logprob(logits: Logits, token: int) -> float:
    [own], _ = report(logits, token, Sampling(logprobs=True))
    return own


def test_a_logprob_is_that_of_the_whole_distribution() -> None:
    logits = row()
    total = np.log(np.exp(logits.astype(np.float64)).sum())
    for token in (0, 7, 299):
        assert logprob(logits, token) == pytest.approx(float(logits[token]) - total, abs=1e-12)


def test_the_probabilities_of_all_ids_add_up_to_one() -> None:
    logits = row()
    assert sum(np.exp(logprob(logits, token)) for token in range(300)) == pytest.approx(1)


def test_neither_temperature_nor_truncation_nor_rules_bear_on_it() -> None:
    logits = row()
    ruled = Sampling(0.1, 0.2, 3, logprobs=True, min_p=0.9, banned=((7,),), logit_bias=((7, 5.0),))
    assert report(logits, 7, ruled) == report(logits, 7, Sampling(logprobs=True))


def test_a_logprob_holds_for_logits_of_any_size() -> None:
    logits = np.array([1e4, 0, -1e4], np.float32)
    assert logprob(logits, 0) == pytest.approx(0)
    assert logprob(logits, 2) == pytest.approx(-2e4)


def test_the_most_probable_come_first_and_the_lower_id_of_a_tie() -> None:
    logits = np.array([1, 3, 2, 3, 0], np.float32)
    _, [top] = report(logits, 4, Sampling(logprobs=True, top_logprobs=3))
    assert top.ids == (1, 3, 2)
    assert top.logprobs == tuple(logprob(logits, token) for token in (1, 3, 2))


def test_more_than_the_vocabulary_is_all_of_it() -> None:
    _, [top] = report(row(4), 0, Sampling(logprobs=True, top_logprobs=9))
    assert sorted(top.ids) == [0, 1, 2, 3]


def test_nothing_is_reported_unless_asked_for() -> None:
    assert report(row(), 0, Sampling()) == ((), ())
    assert report(row(), 0, Sampling(logprobs=True))[1] == ()
