"""What something costs by its size, from what it cost lately."""

from __future__ import annotations

import random

import pytest

from multiverse_worker.tier.line import Line


def test_nothing_is_known_at_first() -> None:
    assert Line().at(10) is None


def test_one_size_says_a_cost_in_proportion() -> None:
    line = Line()
    line.add(100, 0.2)
    line.add(100, 0.2)
    assert line.at(50) == pytest.approx(0.1)


def test_offset_and_slope_are_found_in_noise() -> None:
    rng, line = random.Random(3), Line()
    for _ in range(200):
        size = rng.randint(1, 1000)
        line.add(size, 0.01 + 0.002 * size + rng.gauss(0, 0.001))
    assert line.at(0) == pytest.approx(0.01, abs=0.003)
    assert line.at(1000) == pytest.approx(2.01, rel=0.02)


def test_what_was_measured_lately_counts_more() -> None:
    line = Line()
    for seconds in [1.0] * 50 + [0.1] * 50:
        line.add(10, seconds)
    assert line.at(10) == pytest.approx(0.1, rel=0.8)


def test_no_estimate_is_negative() -> None:
    line = Line()
    line.add(1, 5.0)
    line.add(1000, 0.001)
    estimates = [line.at(size) for size in (0, 1, 500, 10_000)]
    assert all(estimate is not None and estimate >= 0 for estimate in estimates)


def test_a_bad_time_fades() -> None:
    line = Line()
    line.add(10, 2.0)
    before = line.at(10)
    for _ in range(100):
        line.fade()
    after = line.at(10)
    assert before is not None
    assert after is not None
    assert after < before / 100
