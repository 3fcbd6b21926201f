"""Small trainings that leave out one thing each: `python -m multiverse_trainer.tiny.ablation NAME`.

Each starts from the same random weights and reads the same tasks in the same order. Held-out tasks
are checked as the model was trained and as it would be served. One JSON line last; the model is in
`OUT/NAME/run/model`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiverse_trainer.attention.ablation import Layout
from multiverse_trainer.recipe.checkpoints import latest
from multiverse_trainer.recipe.run import run
from multiverse_trainer.recipe.settings import load_settings
from multiverse_trainer.tiny.heldout import HeldOut, load
from multiverse_trainer.tiny.records import curriculum
from multiverse_trainer.tiny.start import write_start
from multiverse_trainer.tiny.tasks import Family

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


def train(name: str, work: Path, count: int, seed: int) -> Path:
    """Trains or goes on; returns the finished model."""
    ablation = ABLATIONS[name]
    work.mkdir(parents=True, exist_ok=True)
    start, data = work / "start", work / "tasks.jsonl"
    if not data.is_file():
        write_start(start, seed)
        lines = (json.dumps(r) + "\n" for r in curriculum(seed, count, ablation.families))
        data.write_text("".join(lines), "utf-8")
    settings = load_settings(
        preset="tiny", model=start, data=[data], output=work / "run", **ablation.settings
    )
    summary = run(settings, resume=latest(settings.output) is not None)
    if not summary["finished"]:
        sys.exit("stopped; start again to go on")
    return Path(summary["model"])


def check(name: str, model: Path, count: int) -> dict[str, dict[str, float]]:
    """Shares of held-out tasks without a wrong token, by layout; all families, seen or not."""
    made, vocabulary = load(model)
    return {
        layout.value: HeldOut.draw(vocabulary, count, layout=layout).check(made)
        for layout in ABLATIONS[name].checks
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(ABLATIONS))
    parser.add_argument("--out", type=Path, default=Path("build/ablations"))
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--tasks", type=int, default=300, help="held-out tasks of a check")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = train(options.name, options.out / options.name, options.records, options.seed)
    families = ABLATIONS[options.name].families
    result = {
        "ablation": options.name,
        "records": options.records,
        "trained_on": [family.value for family in families],
        "fully_right": check(options.name, model, options.tasks),
        "model": str(model),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
