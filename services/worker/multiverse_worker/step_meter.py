"""Measures step(k): how long a step takes in which k branches decode and none loads."""

from __future__ import annotations

_WEIGHT = 0.1  # of the latest step in the mean for its size


class StepMeter:
    """Running means by size, rounded up to a power of two."""

    def __init__(self) -> None:
        self._ms: dict[int, float] = {}

    def saw(self, branches: int, seconds: float) -> None:
        """A step of `branches` that decode, at least one, took so long."""
        size = 1 << (branches - 1).bit_length()
        now = 1000 * seconds
        mean = self._ms.get(size, now)
        self._ms[size] = mean + _WEIGHT * (now - mean)

    @property
    def step_ms(self) -> tuple[tuple[int, float], ...]:
        """(size, milliseconds), ascending; those sizes that were seen."""
        return tuple(sorted(self._ms.items()))
