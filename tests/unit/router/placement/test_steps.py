import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.placement.steps import StepCurve

MEASURED = st.dictionaries(st.sampled_from([1, 2, 4, 8, 16, 32]), st.floats(0.1, 500), min_size=1)


def test_a_curve_is_linear_between_points_and_goes_on_with_its_last_slope() -> None:
    curve = StepCurve.of({1: 10.0, 4: 16.0, 8: 24.0}.items())
    assert [curve.ms(k) for k in (0, 1, 2, 4, 6, 8, 10)] == pytest.approx(
        [10, 10, 12, 16, 20, 24, 28]
    )


def test_one_point_is_a_flat_curve_and_none_is_no_curve() -> None:
    assert StepCurve.of([(2, 7.0)]).ms(64) == 7.0
    assert not StepCurve()
    assert StepCurve().ms(3) == 0


@given(MEASURED, st.integers(0, 100), st.integers(0, 100))
def test_more_branches_never_make_a_step_faster(
    measured: dict[int, float], few: int, more: int
) -> None:
    curve = StepCurve.of(measured.items())
    assert curve.ms(min(few, more)) <= curve.ms(max(few, more)) + 1e-9


@given(MEASURED, st.floats(0, 1000), st.integers(1, 200))
def test_the_most_branches_that_fit_a_budget_are_found(
    measured: dict[int, float], budget: float, at_most: int
) -> None:
    curve = StepCurve.of(measured.items())
    fitting = [k for k in range(1, at_most + 1) if curve.ms(k) <= budget]
    assert curve.most(budget, at_most) == max(fitting, default=0)
