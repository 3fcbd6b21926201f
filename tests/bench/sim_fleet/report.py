"""What is shown of many runs: a table, plots, and the ratios that are asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib import pyplot

Row = dict[str, Any]

COLUMNS = (
    "workers",
    "mix",
    "arrivals",
    "load",
    "policy",
    "good",
    "goodput",
    "rejected",
    "latency_p50_s",
    "latency_p99_s",
    "critical_p50_ms",
    "critical_p99_ms",
    "hit_rate",
    "imbalance",
    "moved",
    "waited",
    "decision_p50_us",
    "decision_p99_us",
)
NEAR = (0.9, 1.1)  # loads that are near saturation
_CASE = ("workers", "mix", "arrivals", "load", "policy")


def averaged(rows: Iterable[Row]) -> list[Row]:
    """One row for each case: means over the seeds."""
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in _CASE), []).append(row)
    found = []
    for same in cases.values():
        mean = {name: same[0][name] for name in _CASE}
        for name in COLUMNS[len(_CASE) :]:
            mean[name] = float(f"{statistics.mean(row[name] for row in same):.4g}")
        found.append(mean)
    return found


def table(rows: Iterable[Row]) -> str:
    """Markdown."""
    lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    lines += [" | ".join(str(row[name]) for name in COLUMNS) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def ratios(rows: list[Row], mix: str, policy: str, other: str) -> dict[tuple[Any, ...], float]:
    """Goodput of a policy by that of another, by workers, arrivals and load."""
    goodput = {
        (row["workers"], row["arrivals"], row["load"], row["policy"]): row["goodput"]
        for row in rows
        if row["mix"] == mix
    }
    return {
        key[:3]: value / max(goodput[(*key[:3], other)], 1e-9)
        for key, value in goodput.items()
        if key[3] == policy and (*key[:3], other) in goodput
    }


def near_saturation(rows: list[Row], mix: str) -> float | None:
    """The mean of `auto` by `eager` over the loads of NEAR; None when none was run."""
    near = [
        ratio
        for (_, _, load), ratio in ratios(rows, mix, "auto", "eager").items()
        if NEAR[0] - 1e-9 <= load <= NEAR[1] + 1e-9
    ]
    return round(statistics.mean(near), 3) if near else None


def possible(rows: list[Row], mix: str) -> float | None:
    """What `near_saturation` would be for a policy all of whose answers are good."""
    near = [
        1 / max(row["good"], 1e-9)
        for row in rows
        if (row["mix"], row["policy"]) == (mix, "eager")
        and NEAR[0] - 1e-9 <= row["load"] <= NEAR[1] + 1e-9
    ]
    return round(statistics.mean(near), 3) if near else None


def peaks(rows: list[Row], mix: str) -> dict[str, float]:
    """By fleet and arrivals: the load at which goodput is highest, with the best policy there.

    Left out where that is the highest load that was run: it may rise further.
    """
    best: dict[str, dict[float, float]] = {}
    for row in rows:
        if row["mix"] == mix:
            fleet = best.setdefault(f"{row['workers']} workers, {row['arrivals']}", {})
            fleet[row["load"]] = max(fleet.get(row["load"], 0.0), row["goodput"])
    found = {fleet: max(loads, key=loads.__getitem__) for fleet, loads in best.items()}
    return {fleet: load for fleet, load in found.items() if load < max(best[fleet])}


def at_peak(rows: list[Row], mix: str) -> float | None:
    """The mean of `auto` by `eager` over loads within a tenth of those of `peaks`."""
    highest = peaks(rows, mix)
    near = [
        ratio
        for (workers, arrivals, load), ratio in ratios(rows, mix, "auto", "eager").items()
        if (peak := highest.get(f"{workers} workers, {arrivals}"))
        and abs(load - peak) <= 0.1 * peak + 1e-9
    ]
    return round(statistics.mean(near), 3) if near else None


def least_of_best(rows: list[Row]) -> tuple[float, str] | None:
    """The worst of `auto` by the better of `eager` and `serial`, and where that was."""
    found = []
    for mix in {row["mix"] for row in rows}:
        serial = ratios(rows, mix, "auto", "serial")
        for key, eager in ratios(rows, mix, "auto", "eager").items():
            if key in serial:
                where = f"{mix}, {key[0]} workers, {key[1]}, load {key[2]}"
                found.append((round(min(eager, serial[key]), 3), where))
    return min(found) if found else None


def plots(rows: list[Row], folder: Path) -> list[Path]:
    """Goodput and latency by load: a picture for each fleet, mix and kind of arrivals."""
    written = []
    groups = sorted({(row["mix"], row["arrivals"], row["workers"]) for row in rows})
    for mix, arrivals, workers in groups:
        same = [
            row
            for row in rows
            if (row["mix"], row["arrivals"], row["workers"]) == (mix, arrivals, workers)
        ]
        figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
        for axis, column in zip(axes, ("good", "goodput", "critical_p99_ms"), strict=True):
            for policy in dict.fromkeys(row["policy"] for row in same):
                points = sorted((r["load"], r[column]) for r in same if r["policy"] == policy)
                axis.plot(*zip(*points, strict=True), marker="o", label=policy)
            axis.set(xlabel="load, of saturation", ylabel=column.replace("_", " "), ylim=(0, None))
        axes[0].legend()
        figure.suptitle(f"{mix}, {arrivals}, {workers} workers")
        path = folder / f"{mix}-{arrivals}-{workers}.png"
        figure.savefig(path, dpi=110)
        pyplot.close(figure)
        written.append(path)
    return written
