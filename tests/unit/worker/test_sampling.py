"""Drawing tokens: the right distribution, reproducibly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_worker.contract import Logits, Sampling
from multiverse_worker.sampling import logprob, sample, uniform
from tests.unit.worker.properties import examples


def random_logits(vocab: int, seed: int = 0, spread: float = 3.0) -> Logits:
    return (np.random.default_rng(seed).standard_normal(vocab) * spread).astype(np.float32)


def reference(logits: Logits, sampling: Sampling, index: int) -> int:
    """By a full sort: top-k first, then the smallest nucleus of what is left, then one draw."""
    wide = logits.astype(np.float64)
    wide[[ids[-1] for ids in sampling.banned]] = -np.inf
    wide = wide / np.float64(np.float32(sampling.temperature))
    order = np.argsort(-wide, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    weights = np.exp(wide[order] - wide[order[0]])
    weights /= weights.sum()
    if 0 < sampling.top_p < 1:
        kept = int(np.searchsorted(weights.cumsum(), sampling.top_p)) + 1
        order, weights = order[:kept], weights[:kept] / weights[:kept].sum()
    point = uniform(sampling.seed, sampling.stream, sampling.draws + index)
    return int(order[min(np.searchsorted(weights.cumsum(), point, side="right"), len(order) - 1)])


def test_without_temperature_the_largest_logit_wins() -> None:
    logits = random_logits(500)
    assert sample(logits, Sampling(), 0) == int(logits.argmax())


def test_the_lower_id_wins_a_tie() -> None:
    logits = np.array([0, 2, 1, 2], np.float32)
    assert sample(logits, Sampling(), 0) == 1


def test_banned_ids_are_never_drawn_and_the_logits_stay_as_they_are() -> None:
    logits = random_logits(20)
    before = logits.copy()
    best, second = np.argsort(-logits)[:2].tolist()
    assert sample(logits, Sampling(banned=((best,),)), 0) == second
    others = tuple((token,) for token in range(20) if token not in (3, 4))
    drawn = {sample(logits, Sampling(5.0, banned=others, seed=s), 0) for s in range(50)}
    assert drawn == {3, 4}
    assert (logits == before).all()


@pytest.mark.parametrize("vocab", [5, 127, 128, 129, 1000])
@examples(60)
@given(
    top_k=st.sampled_from([0, 1, 2, 40, 127, 128, 129, 300, 5000]),
    top_p=st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.9, 0.99, 1.0]),
    temperature=st.sampled_from([0.05, 0.7, 1.0, 3.0]),
    seed=st.integers(0, 2**64 - 1),
)
def test_top_k_and_top_p_are_those_of_a_full_sort(
    vocab: int, top_k: int, top_p: float, temperature: float, seed: int
) -> None:
    logits = random_logits(vocab, seed % 1000)
    sampling = Sampling(temperature, top_p, top_k, seed, "0.1", banned=((0,), (3,)))
    assert [sample(logits, sampling, i) for i in range(8)] == [
        reference(logits, sampling, i) for i in range(8)
    ]


def test_a_wide_top_k_bounds_the_nucleus_just_as_a_narrow_one() -> None:
    """Weights 1 (100 times) and 0.05 (900 times): the 200 largest weigh 105, half of it is 53."""
    logits = np.log(np.array([1.0] * 100 + [0.05] * 900, np.float32))
    sampling = Sampling(1.0, top_p=0.5, top_k=200)
    assert max(sample(logits, sampling, index) for index in range(2000)) < 53


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], np.float32))
    draws = 4000
    counts = np.zeros(5)
    for index in range(draws):
        counts[sample(logits, Sampling(1.0, seed=11), index)] += 1
    expected = np.exp(logits) * draws
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 13.3  # 99% of samples of 4 degrees of freedom lie below


def test_a_top_p_distribution_is_that_of_the_nucleus() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    draws = 3000
    counts = np.zeros(4)
    for index in range(draws):
        counts[sample(logits, Sampling(1.0, top_p=0.65, seed=3), index)] += 1
    assert counts[2:].sum() == 0
    assert counts[0] / draws == pytest.approx(4 / 7, abs=0.03)


def test_uniform_numbers_are_uniform() -> None:
    numbers = np.array([uniform(1, "0", index) for index in range(4000)])
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 36.2  # 99% of 19 degrees of freedom


def test_a_draw_depends_on_seed_stream_and_index_only() -> None:
    logits = random_logits(200)
    drawn = [sample(logits, Sampling(1.0, seed=5, stream="0.2"), index) for index in range(20)]
    again = [sample(logits, Sampling(1.0, seed=5, stream="0.2"), index) for index in range(20)]
    assert drawn == again
    assert len(set(drawn)) > 5


def test_siblings_draw_differently_from_one_seed() -> None:
    paths = [[uniform(5, stream, i) for i in range(10)] for stream in ("0.1", "0.2", "0.1.1")]
    assert len({tuple(path) for path in paths}) == 3


def test_neighbouring_seeds_draw_differently() -> None:
    assert len({uniform(seed, "0", 0) for seed in range(100)}) == 100


def test_draws_that_were_made_before_are_skipped() -> None:
    logits = random_logits(200)
    whole = [sample(logits, Sampling(1.0, seed=5), index) for index in range(10)]
    rest = [sample(logits, Sampling(1.0, seed=5, draws=4), index) for index in range(6)]
    assert rest == whole[4:]


def test_logprob_is_that_of_the_whole_distribution() -> None:
    logits = random_logits(300)
    total = np.log(np.exp(logits.astype(np.float64)).sum())
    for token in (0, 7, 299):
        assert logprob(logits, token) == pytest.approx(float(logits[token]) - total, abs=1e-6)


def test_logprob_holds_for_logits_of_any_size() -> None:
    logits = np.array([1e4, 0, -1e4], np.float32)
    assert logprob(logits, 0) == pytest.approx(0)
    assert logprob(logits, 2) == pytest.approx(-2e4)


def test_a_vanishing_temperature_is_as_good_as_greedy() -> None:
    logits = random_logits(200)
    for temperature in (1e-3, 1e-6, 1e-38, 1e-44):
        assert sample(logits, Sampling(temperature, seed=1), 0) == int(logits.argmax())
