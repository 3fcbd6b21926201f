"""What something costs by its size, as measured lately: seconds = a + b * size.

A line of least squares in which each measurement counts a little less than the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

_KEPT = 0.95  # of the weight of all that was measured before


@dataclass(slots=True)
class Line:
    """Weighted sums of sizes and seconds."""

    _weight: float = 0.0
    _size: float = 0.0
    _seconds: float = 0.0
    _square: float = 0.0
    _product: float = 0.0

    def add(self, size: float, seconds: float) -> None:
        """`size` took so long."""
        self._weight = _KEPT * self._weight + 1
        self._size = _KEPT * self._size + size
        self._seconds = _KEPT * self._seconds + seconds
        self._square = _KEPT * self._square + size * size
        self._product = _KEPT * self._product + size * seconds

    def at(self, size: float) -> float | None:
        """The seconds that `size` takes; None while nothing is known. Never negative."""
        if not self._weight:
            return None
        spread = self._weight * self._square - self._size**2
        if spread < 1e-9 * self._square * self._weight:  # always the same size
            return self._seconds / max(self._size, 1e-9) * size
        slope = (self._weight * self._product - self._size * self._seconds) / spread
        slope = min(max(slope, 0.0), self._seconds / max(self._size, 1e-9))
        offset = (self._seconds - slope * self._size) / self._weight
        return max(0.0, offset + slope * size)

    def fade(self) -> None:
        """Believe less of it: as if the seconds had been fewer. So a bad time is not for ever."""
        self._seconds *= _KEPT
        self._product *= _KEPT
