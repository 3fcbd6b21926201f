"""How long a step of one worker takes, by the branches that decode in it.

The points are the worker's own measurements (`WatchLoadResponse.step_ms`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepCurve:
    """(branches, milliseconds), ascending in both; empty when nothing was measured yet.

    Linear between two points, flat before the first, with the last slope behind the last; flat
    where there is only one: what was never seen is tried, and then it is known.
    """

    points: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, measured: Iterable[tuple[int, float]]) -> StepCurve:
        """Noise may make a larger batch look faster: each point is at least the one before."""
        points: list[tuple[int, float]] = []
        for branches, ms in sorted(measured):
            points.append((branches, max(ms, points[-1][1]) if points else ms))
        return cls(tuple(points))

    def __bool__(self) -> bool:
        return bool(self.points)

    def ms(self, branches: float) -> float:
        """Milliseconds of a step; 0 while nothing was measured."""
        points = self.points  # few: a search would take longer than a look at each
        if len(points) < 2 or branches <= points[0][0]:
            return points[0][1] if points else 0.0
        left, right = points[0], points[1]
        for point in points[2:]:
            if branches <= right[0]:
                break
            left, right = right, point
        return left[1] + (branches - left[0]) * (right[1] - left[1]) / (right[0] - left[0])

    def most(self, budget_ms: float, at_most: int) -> int:
        """The most branches, up to `at_most`, whose step takes at most `budget_ms`."""
        if self.ms(at_most) <= budget_ms:
            return at_most
        low, high = 0, at_most  # ms(high) is above the budget
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.ms(middle) <= budget_ms else (low, middle)
        return low
