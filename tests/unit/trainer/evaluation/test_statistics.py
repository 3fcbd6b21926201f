"""Intervals by bootstrap over questions."""

from __future__ import annotations

import numpy as np
import pytest

from multiverse_trainer.evaluation.statistics import mean, paired, ratio


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    values = np.array([1.0] * 60 + [0.0] * 40)
    found = mean(values)
    error = 1.96 * np.sqrt(0.6 * 0.4 / 100)
    assert found.value == pytest.approx(0.6)
    assert found.low == pytest.approx(0.6 - error, abs=0.015)
    assert found.high == pytest.approx(0.6 + error, abs=0.015)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(100):
        found = mean((rng.random(80) < 0.7).astype(float), seed=trial)
        covered += found.low <= 0.7 <= found.high
    assert 86 <= covered <= 100


def test_pairing_takes_out_what_both_share() -> None:
    rng = np.random.default_rng(2)
    hardness = (rng.random(400) < 0.5).astype(float)
    better = hardness.copy()
    better[:8] = 1.0
    apart = mean(better).high - mean(better).low
    together = paired(better, hardness)
    assert together.high - together.low < apart / 3
    assert together.low >= 0
    assert together.value == pytest.approx((better - hardness).mean())


def test_a_ratio_is_of_sums() -> None:
    found = ratio(np.array([2.0, 4.0]), np.array([1.0, 1.0]))
    assert found.value == pytest.approx(3.0)
    assert (found.low, found.high) == (2.0, 4.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(3).random(50)
    assert mean(values, 1) == mean(values, 1)
    assert mean(values, 1) != mean(values, 2)


def test_nothing_to_take_a_mean_over_is_an_error() -> None:
    with pytest.raises(ValueError, match="no question"):
        mean(np.array([]))
