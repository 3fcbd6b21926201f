"""Measures step(k): how long a step takes in which k branches decode and none loads."""

from __future__ import annotations

_WEIGHT = 0.1  # of the latest step in the means of its class


class StepMeter:
    """Running means of branches and milliseconds, by classes of size: 1, 2, 3 to 4, 5 to 8, ..."""

    def __init__(self) -> None:
        self._means: dict[int, tuple[float, float]] = {}

    def saw(self, branches: int, seconds: float) -> None:
        """A step of `branches` that decode, at least one, took so long."""
        size, now = (branches - 1).bit_length(), 1000 * seconds
        mean, ms = self._means.get(size, (float(branches), now))
        self._means[size] = mean + _WEIGHT * (branches - mean), ms + _WEIGHT * (now - ms)

    @property
    def step_ms(self) -> tuple[tuple[int, float], ...]:
        """(branches in the mean, milliseconds), ascending; one for each class that was seen."""
        return tuple((round(mean), ms) for _, (mean, ms) in sorted(self._means.items()))
