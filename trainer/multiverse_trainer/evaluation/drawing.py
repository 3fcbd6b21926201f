"""Pictures of reports, with matplotlib and without a screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[Mapping[str, Any]]


def draw_arms(path: Path, arms: Mapping[str, Mapping[str, Any]]) -> None:
    """pass@1 of each arm with its interval."""

    def draw(axes: Axes) -> None:
        told = {name: arm["pass_at_1"] for name, arm in arms.items() if "pass_at_1" in arm}
        for at, found in enumerate(told.values()):
            _interval(axes, at, found)
        axes.set_xticks(range(len(told)), list(told))
        axes.set_xlim(-0.5, len(told) - 0.5)
        axes.set_ylabel("pass@1")

    _save(path, draw)


def draw_budgets(path: Path, points: Points) -> None:
    """Figure 7."""

    def draw(axes: Axes) -> None:
        budgets = [point["critical_tokens"] for point in points]
        for name, style in (("parallel", "o-"), ("twin", "s--")):
            found = [point[f"pass_{name}"] for point in points]
            axes.plot(budgets, [one["value"] for one in found], style, label=name)
            low, high = zip(*(one["ci"] for one in found), strict=True)
            axes.fill_between(budgets, low, high, alpha=0.2)
        axes.set_xlabel("tokens on the critical path, at most")
        axes.set_ylabel("pass@1")
        axes.legend()

    _save(path, draw)


def draw_latency(path: Path, points: Points) -> None:
    """Figure 8a."""

    def draw(axes: Axes) -> None:
        at = [point["parallelism"] for point in points]
        for key, style, label in (
            ("ms_per_token", "o-", "in parallel"),
            ("ms_per_token_serial", "s-", "path by path"),
            ("bound_ms_per_token", "k--", "bound of the engine's steps"),
            ("bound_ms_per_token_serial", "k:", "the same, path by path"),
        ):
            axes.plot(at, [point[key] for point in points], style, label=label)
        axes.set_xlabel("parallelism of the answer")
        axes.set_ylabel("ms per token")
        axes.set_ylim(bottom=0)
        axes.legend()

    _save(path, draw)


def draw_speed_up(path: Path, points: Points) -> None:
    """Figure 8b."""

    def draw(axes: Axes) -> None:
        at = [point["batch"] for point in points]
        axes.plot(at, [point["speed_up"] for point in points], "o-", label="measured")
        axes.plot(at, [point["bound"] for point in points], "k--", label="bound of the steps")
        axes.axhline(1.0, color="grey", linewidth=0.5)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("requests at once")
        axes.set_ylabel("speed-up over path by path")
        axes.legend()

    _save(path, draw)


def _interval(axes: Axes, at: float, found: Mapping[str, Any]) -> None:
    value, (low, high) = found["value"], found["ci"]
    axes.errorbar(at, value, [[value - low], [high - value]], fmt="o", capsize=4)


def _save(path: Path, draw: Callable[[Axes], None]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    draw(figure.subplots())
    figure.savefig(path, dpi=120)
