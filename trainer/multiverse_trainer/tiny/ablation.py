"""Trainings that leave out one thing each: `python -m multiverse_trainer.tiny.ablation NAME`.

`ours` leaves out nothing: the committed model is made so, and its twin by `twin`. Each starts from
the same random weights and reads the same tasks in the same order. Held-out tasks are checked as
the model was trained and as it would be served. Started again it goes on. One JSON line last; the
model is in `OUT/NAME/run/model`, behind long tasks in `OUT/NAME/run-long/model`, behind wide ones
in `OUT/NAME/run-wide/model`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiverse_trainer.attention.ablation import Layout
from multiverse_trainer.recipe.checkpoints import latest
from multiverse_trainer.recipe.run import run
from multiverse_trainer.recipe.settings import load_settings
from multiverse_trainer.tiny.heldout import HeldOut, load
from multiverse_trainer.tiny.records import curriculum, lengthened, widened
from multiverse_trainer.tiny.start import write_start
from multiverse_trainer.tiny.tasks import Family, Level

HALF = (Family.EVAL, Family.TEST)


@dataclass(frozen=True, slots=True)
class Ablation:
    """What differs from the recipe of the tiny model."""

    settings: dict[str, Any] = field(default_factory=dict)
    families: tuple[Family, ...] = tuple(Family)
    checks: tuple[Layout, ...] = (Layout.SERVED,)


ABLATIONS = {
    "ours": Ablation(checks=(Layout.SERVED, Layout.DRIFT)),
    "twin": Ablation({"shares": [0.0]}),  # sequential samples only
    "no-restart": Ablation({"layout": "no-restart"}, checks=(Layout.NO_RESTART, Layout.SERVED)),
    "no-isolation": Ablation(
        {"layout": "no-isolation"}, checks=(Layout.NO_ISOLATION, Layout.SERVED)
    ),
    "no-sequential": Ablation({"shares": [1.0]}),
    # Trained with what leaks from path to path, served without, and with drifting positions.
    "published": Ablation({"layout": "leak"}, checks=(Layout.LEAK, Layout.SERVED, Layout.DRIFT)),
    "half": Ablation(families=HALF),
    "half-twin": Ablation({"shares": [0.0]}, families=HALF),
}


def train(
    name: str, work: Path, count: int, seed: int, long_count: int = 0, wide_count: int = 0
) -> Path:
    """Trains or goes on; returns the finished model. The other counts are records of the second
    and the third stage."""
    families = ABLATIONS[name].families
    start = work / "start"
    if not (start / "multiverse.json").is_file():  # written last
        work.mkdir(parents=True, exist_ok=True)
        write_start(start, seed)
    model = _stage(name, "tiny", start, work / "run", curriculum(seed, count, families))
    if long_count:
        records = lengthened(seed, long_count, families)
        model = _stage(name, "tiny-long", model, work / "run-long", records)
    if wide_count:
        records = widened(seed, wide_count, families)
        model = _stage(name, "tiny-long", model, work / "run-wide", records)
    return model


def _stage(
    name: str, preset: str, start: Path, output: Path, records: Iterable[dict[str, Any]]
) -> Path:
    """Trains on `records`, or goes on; SystemExit where another training has been."""
    model, data = output / "model", output.with_suffix(".jsonl")
    text = "".join(json.dumps(record) + "\n" for record in records)
    if not data.is_file():
        part = data.with_suffix(".part")
        part.write_text(text, "utf-8")
        part.rename(data)
    elif data.read_text("utf-8") != text:
        sys.exit(f"{data} has other records (their number, seed or families); use another --out")
    if model.is_dir():
        return model
    settings = load_settings(
        preset=preset, model=start, data=[data], output=output, **ABLATIONS[name].settings
    )
    if not run(settings, resume=latest(settings.output) is not None)["finished"]:
        sys.exit("stopped; start again to go on")
    return model


def check(
    name: str, model: Path, count: int, level: Level = Level.FULL
) -> dict[str, dict[str, float]]:
    """Shares of held-out tasks without a wrong token, by layout; all families, seen or not."""
    made, vocabulary = load(model)
    return {
        layout.value: HeldOut.draw(vocabulary, count, layout=layout, level=level).check(made)
        for layout in ABLATIONS[name].checks
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(ABLATIONS))
    parser.add_argument("--out", type=Path, default=Path("build/ablations"))
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument(
        "--long-records", type=int, default=0, help="long tasks behind them, in a second stage"
    )
    parser.add_argument(
        "--wide-records", type=int, default=0, help="wide tasks behind those, in a third stage"
    )
    parser.add_argument("--tasks", type=int, default=300, help="held-out tasks of a check")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path, help="directory that gets the finished model")
    options = parser.parse_args()
    name, work = options.name, options.out / options.name
    long, wide = options.long_records, options.wide_records
    model = train(name, work, options.records, options.seed, long, wide)
    result = {
        "ablation": name,
        "records": options.records,
        "long_records": long,
        "wide_records": wide,
        "trained_on": [family.value for family in ABLATIONS[name].families],
        "fully_right": check(name, model, options.tasks),
        "model": str(model),
    }
    if long:
        result["fully_right_long"] = check(name, model, options.tasks, Level.LONG)
    if wide:
        result["fully_right_wide"] = check(name, model, options.tasks, Level.WIDE)
    if options.export:
        shutil.copytree(model, options.export, dirs_exist_ok=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
