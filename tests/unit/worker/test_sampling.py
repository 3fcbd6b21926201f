"""Drawing tokens: the right distribution, reproducibly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_worker.contract import Logits, Sampling
from multiverse_worker.sampling import Sampler, distribution, draw, uniform
from multiverse_worker.truncation import Wide, largest, most_probable, pick
from tests.unit.worker.properties import examples

TOP_K = st.sampled_from([0, 1, 2, 40, 127, 128, 300, 5000])
TOP_P = st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.9, 0.99, 0.999999, 1.0])
MIN_P = st.sampled_from([0.0, 1e-6, 0.02, 0.3, 1.0])
TEMPERATURE = st.sampled_from([1e-4, 0.05, 0.7, 1.0, 3.0])


def random_logits(vocab: int, seed: int = 0, spread: float = 3.0) -> Logits:
    return (np.random.default_rng(seed).standard_normal(vocab) * spread).astype(np.float32)


def reference(logits: Logits, sampling: Sampling) -> Wide:
    """By a full sort: the weight of each id [vocab], 0 where it is left out."""
    wide = logits.astype(np.float64)
    order = np.argsort(-wide, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    with np.errstate(over="ignore"):
        weights = np.exp((wide[order] - wide[order[0]]) / sampling.temperature)
    if 0 < sampling.top_p < 1:
        share = sampling.top_p * weights.sum()
        kept = int(np.searchsorted(weights.cumsum(), share)) + 1
        order, weights = order[:kept], weights[:kept]
    kept = int(np.count_nonzero(weights >= sampling.min_p))
    out = np.zeros(len(logits))
    out[order[:kept]] = weights[:kept]
    return out


def weights_of(logits: Logits, sampling: Sampling) -> Wide:
    """What `distribution` gives, as weights [vocab]."""
    ids, weights = distribution(logits, sampling)
    out = np.zeros(len(logits))
    out[slice(None) if ids is None else ids] = weights
    return out


def tokens(logits: Logits, sampling: Sampling, number: int) -> list[int]:
    return [draw(logits, sampling, index) for index in range(number)]


def test_without_temperature_the_largest_logit_wins() -> None:
    logits = random_logits(500)
    assert draw(logits, Sampling(top_k=3, top_p=0.5, min_p=0.5), 0) == int(logits.argmax())


def test_the_lower_id_wins_a_tie() -> None:
    logits = np.array([0, 2, 1, 2], np.float32)
    assert draw(logits, Sampling(), 0) == 1


# -- truncation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab", [1, 5, 127, 128, 129, 1000])
@examples(150)
@given(TOP_K, TOP_P, MIN_P, TEMPERATURE, st.integers(0, 1000), st.sampled_from([0.01, 1.0, 8.0]))
def test_what_is_left_is_that_of_a_full_sort(
    vocab: int, top_k: int, top_p: float, min_p: float, temperature: float, seed: int, spread: float
) -> None:
    logits = random_logits(vocab, seed, spread)
    sampling = Sampling(temperature, top_p, top_k, min_p=min_p)
    np.testing.assert_array_equal(weights_of(logits, sampling), reference(logits, sampling))


@examples(200)
@given(TOP_K, TOP_P, MIN_P, TEMPERATURE, st.integers(0, 1000), st.integers(1, 4))
def test_ties_at_every_border_go_to_the_lower_ids(
    top_k: int, top_p: float, min_p: float, temperature: float, seed: int, values: int
) -> None:
    logits = np.random.default_rng(seed).integers(0, values, 400).astype(np.float32)
    logits[seed % 400] = -np.inf
    sampling = Sampling(temperature, top_p, top_k, min_p=min_p)
    got, expected = weights_of(logits, sampling), reference(logits, sampling)
    assert np.flatnonzero(got).tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize("sampling", [Sampling(1.0, 0.9), Sampling(1.0, 0.9, 2000)], ids=["p", "k"])
def test_a_vocabulary_of_full_size_is_truncated_as_by_a_full_sort(sampling: Sampling) -> None:
    for seed in range(4):
        logits = random_logits(49_152, seed, spread=1.0 + seed)
        kept = np.flatnonzero(weights_of(logits, sampling))
        assert kept.tolist() == np.flatnonzero(reference(logits, sampling)).tolist()


def test_logits_that_differ_in_their_last_bit_are_no_tie() -> None:
    """Subtracting the largest logit must not round them together."""
    low = np.float32(1e-6)
    logits = np.array([low, np.nextafter(low, np.float32(1)), 20], np.float32)
    assert np.flatnonzero(weights_of(logits, Sampling(1.0, top_k=2))).tolist() == [1, 2]
    share = 1 - 1.5 * np.exp(-20.0)
    assert np.flatnonzero(weights_of(logits, Sampling(1.0, share))).tolist() == [1, 2]


def test_a_wide_top_k_bounds_the_nucleus_just_as_a_narrow_one() -> None:
    """Weights 1 (100 times) and 0.05 (900 times): the 200 largest weigh 105, half of it is 53."""
    logits = np.log(np.array([1.0] * 100 + [0.05] * 900, np.float32))
    ids, _ = distribution(logits, Sampling(1.0, top_p=0.5, top_k=200))
    assert ids is not None
    assert ids.tolist() == list(range(53))


@examples(100)
@given(st.integers(0, 1000), st.integers(1, 900), st.sampled_from([1, 40, 899, 900, 2000]))
def test_the_largest_are_those_of_a_sort(seed: int, values: int, number: int) -> None:
    row = np.random.default_rng(seed).integers(0, values, 900).astype(np.float32)
    expected = np.argsort(-row, kind="stable")[:number]
    assert largest(row, number).tolist() == sorted(expected.tolist())
    assert most_probable(row, number) == tuple(expected.tolist())


# -- the draw ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0),
        Sampling(0.6),
        Sampling(1.0, top_k=5),
        Sampling(1.3, top_p=0.8),
        Sampling(1.0, min_p=0.1),
        Sampling(0.9, 0.9, 8, min_p=0.05),
        Sampling(1.0, presence_penalty=0.5, frequency_penalty=0.3, repetition_penalty=1.3),
        Sampling(1.0, logit_bias=((3, 2.0), (5, -1.0))),
        Sampling(1.0, top_p=0.9, banned=((0,), (9,))),
    ],
    ids=["all", "temperature", "top-k", "top-p", "min-p", "three", "penalties", "bias", "banned"],
)
def test_draws_follow_the_exact_distribution(sampling: Sampling) -> None:
    logits = random_logits(12, seed=2, spread=1.5)
    seen = (1, 1, 2, 7, 7, 7)
    changed = logits.astype(np.float64)
    repetition = sampling.repetition_penalty
    for token in set(seen):
        value = changed[token]
        changed[token] = value / repetition if value > 0 else value * repetition
        changed[token] -= sampling.frequency_penalty * seen.count(token) + sampling.presence_penalty
    for token, bias in sampling.logit_bias:
        changed[token] += bias
    changed[[ids[0] for ids in sampling.banned]] = -np.inf
    weights = reference(changed.astype(np.float32), sampling)
    draws = 4000
    sampler = Sampler(sampling, seen)
    drawn = [sampler.next(logits, [0] * index) for index in range(draws)]
    counts = np.bincount(drawn, minlength=len(logits))
    possible = weights > 0
    assert counts[~possible].sum() == 0
    expected = weights[possible] / weights.sum() * draws
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = np.count_nonzero(possible) - 1
    assert freedom >= 2
    # Wilson and Hilferty's approximation: 99.9% of samples lie below.
    most = freedom * (1 - 2 / (9 * freedom) + 3.09 * np.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < most


def test_uniform_numbers_are_uniform() -> None:
    numbers = np.array([uniform(1, "0", index) for index in range(4000)])
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 36.2  # 99% of 19 degrees of freedom


def test_a_draw_depends_on_seed_stream_and_index_only() -> None:
    logits = random_logits(200)
    drawn = tokens(logits, Sampling(1.0, seed=5, stream="0.2"), 20)
    assert tokens(logits, Sampling(1.0, seed=5, stream="0.2"), 20) == drawn
    assert len(set(drawn)) > 5


def test_siblings_draw_differently_from_one_seed() -> None:
    paths = [[uniform(5, stream, i) for i in range(10)] for stream in ("0.1", "0.2", "0.1.1")]
    assert len({tuple(path) for path in paths}) == 3


def test_neighbouring_seeds_draw_differently() -> None:
    assert len({uniform(seed, "0", 0) for seed in range(100)}) == 100


def test_draws_that_were_made_before_are_skipped() -> None:
    logits = random_logits(200)
    whole = tokens(logits, Sampling(1.0, seed=5), 10)
    assert tokens(logits, Sampling(1.0, seed=5, draws=4), 6) == whole[4:]


def test_noise_in_the_logits_moves_few_draws() -> None:
    """Engines differ by rounding: a draw changes only where u is as close to a border."""
    logits = random_logits(2000, spread=1.0)
    noisy = logits + random_logits(2000, seed=1, spread=1e-5)
    sampling = Sampling(1.0, 0.95, seed=3)
    same = [a == b for a, b in zip(*(tokens(x, sampling, 500) for x in (logits, noisy)))]  # noqa: B905
    assert sum(same) >= 498


def test_a_vanishing_temperature_is_as_good_as_greedy() -> None:
    logits = random_logits(200)
    for temperature in (1e-3, 1e-6, 1e-38, 1e-44, 1e-320):
        for sampling in (Sampling(temperature), Sampling(temperature, 0.9, 20, min_p=0.1)):
            assert draw(logits, sampling, 0) == int(logits.argmax())


def test_a_draw_at_the_very_end_is_an_id_that_has_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiverse_worker.sampling.uniform", lambda *_: 1.0)
    logits = np.array([0, 1, -np.inf], np.float32)
    assert draw(logits, Sampling(1.0), 0) == 1


@examples(100)
@given(st.integers(1, 400), st.integers(0, 1000), st.floats(0, 1, exclude_max=True))
def test_the_index_picked_is_that_of_a_running_sum(size: int, seed: int, share: float) -> None:
    """Small whole numbers: their sums are exact."""
    weights = np.random.default_rng(seed).integers(0, 4, size).astype(np.float64)
    weights[seed % size] = 1
    cumulative = weights.cumsum()
    expected = np.searchsorted(cumulative, share * cumulative[-1], side="right")
    at = pick(weights, share)
    assert weights[at] > 0
    assert at == min(expected, np.flatnonzero(weights)[-1])


def test_the_draw_rises_with_its_number_in_the_order_of_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logits = random_logits(50)
    drawn = []
    for point in np.linspace(0, 1, 200, endpoint=False):
        monkeypatch.setattr("multiverse_worker.sampling.uniform", lambda *_, at=point: at)
        drawn.append(draw(logits, Sampling(1.0, top_p=0.9), 0))
    assert all(a <= b for a, b in pairwise(drawn))
