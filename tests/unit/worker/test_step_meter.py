"""step(k): what a step takes by the branches that it decodes."""

from __future__ import annotations

import pytest

from multiverse_worker.step_meter import StepMeter


def test_sizes_are_rounded_up_to_powers_of_two() -> None:
    meter = StepMeter()
    for branches in (1, 2, 3, 4, 5, 8, 9):
        meter.saw(branches, branches / 1000)
    assert [size for size, _ in meter.step_ms] == [1, 2, 4, 8, 16]


def test_the_first_step_is_the_mean_and_later_ones_move_it_slowly() -> None:
    meter = StepMeter()
    meter.saw(1, 0.010)
    assert meter.step_ms == ((1, pytest.approx(10.0)),)
    meter.saw(1, 0.020)
    assert meter.step_ms == ((1, pytest.approx(11.0)),)
    for _ in range(100):
        meter.saw(1, 0.020)
    assert meter.step_ms[0][1] == pytest.approx(20.0, rel=1e-3)
