"""How long a step of one worker takes, by the branches that decode in it.

The points are the worker's own measurements (`WatchLoadResponse.step_ms`).
"""

from __future__ import annotations

from bisect import bisect_left
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
        points = self.points
        if not points:
            return 0.0
        if len(points) == 1 or branches <= points[0][0]:
            return points[0][1]
        right = min(bisect_left(points, (branches, 0.0)), len(points) - 1)
        (k0, ms0), (k1, ms1) = points[right - 1], points[right]
        return ms0 + (branches - k0) * (ms1 - ms0) / (k1 - k0)

    def most(self, budget_ms: float, at_most: int) -> int:
        """The most branches, up to `at_most`, whose step takes at most `budget_ms`."""
        if self.ms(at_most) <= budget_ms:
            return at_most
        low, high = 0, at_most  # ms(high) is above the budget
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.ms(middle) <= budget_ms else (low, middle)
        return low
