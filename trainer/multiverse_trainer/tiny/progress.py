"""The record of a training run: losses, speed, held-out scores, as JSON and as a picture.

Knows numbers and files only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # the backend has to be chosen first


@dataclass(frozen=True, slots=True)
class Point:
    """Means over the steps since the point before."""

    step: int
    tokens: int  # seen so far, padding left out
    minutes: float  # of training so far
    loss: float  # nats per learned token
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Score:
    """One held-out check on the way."""

    tokens: int
    scores: dict[str, float]
    mistakes: tuple[str, ...]


@dataclass(slots=True)
class TrainingLog:
    points: list[Point] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[dict[str, object]]]:
        return {
            "points": [asdict(point) for point in self.points],
            "scores": [asdict(score) for score in self.scores],
        }

    def write(self, directory: Path) -> None:
        """`training.json` and `loss.png`."""
        text = json.dumps(self.as_dict(), indent=1)
        (directory / "training.json").write_text(text + "\n", "utf-8")
        figure, loss_axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
        loss_axes.plot(
            [point.tokens / 1e6 for point in self.points], [point.loss for point in self.points]
        )
        loss_axes.set(
            yscale="log", xlabel="tokens (millions)", ylabel="loss (nats per learned token)"
        )
        score_axes = loss_axes.twinx()
        for rendering, colour in (("parallel", "tab:orange"), ("sequential", "tab:green")):
            score_axes.plot(
                [score.tokens / 1e6 for score in self.scores],
                [100 * score.scores[rendering] for score in self.scores],
                "o-",
                color=colour,
                label=rendering,
            )
        score_axes.set(ylim=(0, 101), ylabel="held-out tasks fully right (%)")
        score_axes.legend(loc="center right")
        figure.savefig(directory / "loss.png", dpi=120)
        pyplot.close(figure)
