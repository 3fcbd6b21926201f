"""What the engine's own steps allow: no answer can be decoded faster than its steps take.

step(k) is the time of a step that decodes k paths, as the worker reports it (`step_ms`) at powers
of two; between them it is a straight line, beyond the last one it goes on in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class StepTimes:
    """step(k) in milliseconds. ValueError without any point."""

    def __init__(self, points: Mapping[int, float]) -> None:
        if not points:
            raise ValueError("the worker has reported no time of a step")
        self._points = sorted(points.items())

    def __call__(self, paths: float) -> float:
        (first, least), (last, most) = self._points[0], self._points[-1]
        if paths <= first:
            return least
        if paths >= last:
            return most * paths / last
        for (k, ms), (next_k, next_ms) in zip(self._points, self._points[1:], strict=False):
            if paths <= next_k:
                return ms + (next_ms - ms) * (paths - k) / (next_k - k)
        raise AssertionError("the points are in order")

    def parallel_ms(self, live: Sequence[int], batch: int = 1) -> float:
        """One of `batch` answers like this one, decoded side by side in parallel."""
        return sum(self(batch * paths) for paths in live)

    def serial_ms(self, live: Sequence[int], batch: int = 1) -> float:
        """The same, each answer one path at a time."""
        return sum(live) * self(batch)
