"""The ratios that are read off many runs."""

from __future__ import annotations

import pytest

from tests.bench.sim_fleet.report import Row, least_of_best, near_saturation, possible


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


def test_the_worst_is_by_the_better_of_two() -> None:
    least = least_of_best(ROWS)
    assert least is not None
    assert least[0] == pytest.approx(0.75 / 0.9, abs=1e-3)
    assert least[1].endswith("load 1.1")
