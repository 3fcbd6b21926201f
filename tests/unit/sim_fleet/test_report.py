"""The ratios that are read off many runs."""

from __future__ import annotations

import pytest

from tests.bench.sim_fleet.report import (
    Row,
    at_peak,
    least_of_best,
    near_saturation,
    peaks,
    possible,
)


def row(policy: str, load: float, good: float) -> Row:
    case = {"workers": 4, "mix": "forkheavy", "arrivals": "poisson"}
    return {**case, "load": load, "policy": policy, "good": good, "goodput": good * load}


ROWS = [
    *(row("eager", load, good) for load, good in ((0.5, 1.0), (0.9, 0.8), (1.1, 0.5))),
    *(row("auto", load, good) for load, good in ((0.5, 0.98), (0.9, 1.0), (1.1, 0.75))),
    *(row("serial", load, good) for load, good in ((0.5, 1.0), (0.9, 0.9), (1.1, 0.9))),
]


def test_near_saturation_are_loads_from_nine_tenths_on() -> None:
    assert near_saturation(ROWS, "forkheavy") == pytest.approx((1 / 0.8 + 0.75 / 0.5) / 2)
    assert near_saturation(ROWS, "traces") is None


def test_no_policy_gains_more_than_eager_leaves() -> None:
    assert possible(ROWS, "forkheavy") == pytest.approx((1 / 0.8 + 1 / 0.5) / 2)
    assert possible(ROWS, "traces") is None


def test_the_peak_is_where_the_best_policy_does_most() -> None:
    # Goodput of the best: 0.5, 0.9, 0.99 (serial), 0.96.
    rows = [*ROWS, *(row(name, 1.2, good) for name, good in (("eager", 0.4), ("auto", 0.8)))]
    assert peaks(rows, "forkheavy") == {"4 workers, poisson": 1.1}
    assert at_peak(rows, "forkheavy") == pytest.approx((0.75 / 0.5 + 0.8 / 0.4) / 2)
    assert peaks(rows, "traces") == {}
    assert at_peak(rows, "traces") is None


def test_goodput_that_still_rises_has_no_peak() -> None:
    assert peaks(ROWS, "forkheavy") == {}
    assert at_peak(ROWS, "forkheavy") is None


def test_the_worst_is_by_the_better_of_two() -> None:
    least = least_of_best(ROWS)
    assert least is not None
    assert least[0] == pytest.approx(0.75 / 0.9, abs=1e-3)
    assert least[1].endswith("load 1.1")
