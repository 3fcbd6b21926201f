"""The losses of a training as a picture. Knows what the Trainer logged and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # the backend has to be chosen first

Entries = Sequence[Mapping[str, Any]]


def losses_of(history: Entries) -> list[tuple[int, float]]:
    """Step and loss (nats per label, a mean since the entry before) of every entry that has one."""
    return [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]


def draw_losses(curves: Mapping[str, list[tuple[int, float]]], path: Path) -> None:
    """One line for each named curve, as PNG."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, points in curves.items():
        axes.plot([step for step, _ in points], [loss for _, loss in points], label=name)
    axes.set(yscale="log", xlabel="step", ylabel="loss (nats per label)")
    axes.legend()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
