"""Plots of a run, as SVG."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from math import nan

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadtest.sample import Outcome, Sample
from loadtest.summary import ABUSE, quantiles

BINS = 60  # over time
mpl.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})


def plots(samples: Sequence[Sample], seconds: float) -> dict[str, str]:
    """By title."""
    waited = [one for one in samples if one.api != ABUSE and one.outcome is Outcome.OK]
    return {
        "Requests over time": _svg(lambda axes: _over_time(axes, samples, seconds)),
        "Time to first token over time": _svg(lambda axes: _first_tokens(axes, waited, seconds)),
        "Time to first token": _svg(
            lambda axes: _shares(axes, waited, lambda one: one.first_token_s, "s")
        ),
        "Time per token of the longest chain": _svg(
            lambda axes: _shares(axes, waited, lambda one: one.critical_token_s, "s")
        ),
        "Critical path": _svg(lambda axes: _shares(axes, waited, lambda one: one.decode_s, "s")),
        "Spread of the paths of a block": _svg(
            lambda axes: _histogram(axes, [each for one in waited for each in one.spread_s])
        ),
        "Parallelism": _svg(
            lambda axes: _shares(axes, waited, lambda one: one.parallelism, "tokens / chain")
        ),
    }


def _svg(draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    draw(figure.add_subplot())
    out = io.StringIO()
    figure.savefig(out, format="svg")
    return out.getvalue().partition("-->")[2] or out.getvalue()


def _bins(seconds: float) -> list[float]:
    return [seconds * edge / BINS for edge in range(BINS + 1)]


def _over_time(axes: Axes, samples: Sequence[Sample], seconds: float) -> None:
    width = seconds / BINS
    ok = [one.at for one in samples if one.outcome is Outcome.OK]
    failed = [one.at for one in samples if one.outcome is not Outcome.OK]
    weights = [[1 / width] * len(ok), [1 / width] * len(failed)]
    axes.hist([ok, failed], _bins(seconds), weights=weights, stacked=True, label=["ok", "failed"])
    axes.set(xlabel="s", ylabel="requests begun per s")
    axes.legend()


def _first_tokens(axes: Axes, samples: Sequence[Sample], seconds: float) -> None:
    edges = _bins(seconds)
    middle = [(left + right) / 2 for left, right in itertools.pairwise(edges)]
    found = [
        quantiles(one.first_token_s for one in samples if left <= one.at < right)
        for left, right in itertools.pairwise(edges)
    ]
    for name in ("p50", "p99"):
        values = [nan if (value := each[name]) is None else value for each in found]
        axes.plot(middle, values, label=name)
    axes.set(xlabel="s", ylabel="s", ylim=(0, None))
    axes.legend()


def _shares(
    axes: Axes,
    samples: Sequence[Sample],
    value: Callable[[Sample], float | None],
    unit: str,
) -> None:
    """A line for each kind of user: which share of its requests had at most so much."""
    for user in sorted({one.user for one in samples}):
        known = sorted(
            found for one in samples if one.user == user and (found := value(one)) is not None
        )
        if known:
            shares = [(index + 1) / len(known) for index in range(len(known))]
            axes.step(known, shares, where="post", label=user)
    axes.set(xlabel=unit, ylabel="share of requests", ylim=(0, 1.02))
    axes.legend()


def _histogram(axes: Axes, values: Sequence[float]) -> None:
    axes.hist(values or [0.0], 50)
    axes.set(xlabel="s", ylabel="blocks")
