"""step(k): what a step takes by the branches that it decodes."""

from __future__ import annotations

import pytest

from multiverse_worker.step_meter import StepMeter


def test_sizes_of_a_class_are_told_as_their_mean() -> None:
    meter = StepMeter()
    for branches in (1, 2, 3, 4, 5, 8, 9):
        meter.saw(branches, branches / 1000)
    assert [size for size, _ in meter.step_ms] == [1, 2, 3, 5, 9]
    for _ in range(100):
        meter.saw(16, 0.016)
    assert meter.step_ms[-1] == (16, pytest.approx(16.0, rel=1e-3))


def test_a_worker_that_runs_few_of_a_class_is_not_taken_for_fast_with_many() -> None:
    meter = StepMeter()
    for branches in (9, 10, 11) * 50:
        meter.saw(branches, branches / 1000)
    (size, ms), *_ = meter.step_ms
    assert ms == pytest.approx(size, abs=0.5)


def test_the_first_step_is_the_mean_and_later_ones_move_it_slowly() -> None:
    meter = StepMeter()
    meter.saw(1, 0.010)
    assert meter.step_ms == ((1, pytest.approx(10.0)),)
    meter.saw(1, 0.020)
    assert meter.step_ms == ((1, pytest.approx(11.0)),)
    for _ in range(100):
        meter.saw(1, 0.020)
    assert meter.step_ms[0][1] == pytest.approx(20.0, rel=1e-3)
