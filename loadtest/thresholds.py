"""What a run has to keep to: bounds on figures of its summary, from a JSON file.

{"failures": {"most": 0}, "first_token_s.p99": {"most": 5}, "goodput.share": {"least": 0.9}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BOUNDS = ("least", "most")
Thresholds = Mapping[str, Mapping[str, float]]


def read_thresholds(path: Path) -> Thresholds:
    """ValueError for what is no file of thresholds."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    for name, bounds in found.items():
        if not isinstance(bounds, dict) or not bounds or set(bounds) - set(BOUNDS):
            raise ValueError(f"{path}: {name}: give `least`, `most`, or both")
        if not all(isinstance(value, int | float) for value in bounds.values()):
            raise ValueError(f"{path}: {name}: bounds are numbers")
    return dict(found)


def broken(summary: Mapping[str, Any], thresholds: Thresholds) -> list[str]:
    """A sentence for each bound that the run did not keep to, or had no figure for."""
    faults = []
    for name, bounds in thresholds.items():
        value = _figure(summary, name)
        if value is None:
            faults.append(f"{name}: the run has no such figure")
            continue
        if value < bounds.get("least", value):
            faults.append(f"{name} is {value:g}, at least {bounds['least']:g} is wanted")
        if value > bounds.get("most", value):
            faults.append(f"{name} is {value:g}, at most {bounds['most']:g} is wanted")
    return faults


def _figure(summary: Mapping[str, Any], name: str) -> float | None:
    """`first_token_s.p99` stands for `summary["first_token_s"]["p99"]`."""
    found: Any = summary
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else None
