"""The held-out check: how many tasks a model would answer without a single wrong token.

`python -m multiverse_trainer.tiny.heldout --model DIR`. Greedy decoding writes the reference answer
exactly when, with the reference before it, every label is the likeliest token. So one forward pass
decides, and no decoder is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from multiverse_trainer.attention.ablation import Layout
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of
from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Renderer, Rendering
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.vocabulary import TrainingVocabulary
from multiverse_trainer.tiny.records import record_of
from multiverse_trainer.tiny.start import DIALECT
from multiverse_trainer.tiny.tasks import Family, Level, Task, draw_family, make_task
from multiverse_trainer.tiny.vocabulary import LONGEST_CONTEXT, SUFFIX

SEED = 2_000_003  # no training has it
ROWS = 16  # of a forward pass


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Tasks kept out of training by a seed of their own, as samples of a model's vocabulary."""

    tasks: tuple[Task, ...]
    samples: SampleSet

    @classmethod
    def draw(
        cls,
        vocabulary: TrainingVocabulary,
        count: int,
        seed: int = SEED,
        families: Sequence[Family] = tuple(Family),
        layout: Layout = Layout.SERVED,
        level: Level = Level.FULL,
    ) -> HeldOut:
        rng = Random(seed)
        tasks = tuple(make_task(rng, draw_family(rng, families), level) for _ in range(count))
        renderer = Renderer(vocabulary.grammar, vocabulary.frame(SUFFIX, ""))
        samples = SampleSet(renderer, Rendering.PARALLEL, LONGEST_CONTEXT, layout)
        samples.read(
            parse_record(record_of(task, str(number))) for number, task in enumerate(tasks)
        )
        return cls(tasks, samples)

    def check(self, model: Any) -> dict[str, float]:
        """Shares of fully right samples, by `rendering` and by `family/rendering`."""
        scores: dict[str, float] = {}
        for rendering in ("parallel", "sequential"):
            right = self.right(model, parallel=rendering == "parallel")
            scores[rendering] = round(mean(right), 4)
            for family in sorted({task.family for task in self.tasks}):
                own = [
                    r for task, r in zip(self.tasks, right, strict=True) if task.family is family
                ]
                scores[f"{family}/{rendering}"] = round(mean(own), 4)
        return scores

    def right(self, model: Any, *, parallel: bool) -> list[bool]:
        """For each task whether every label is the likeliest token. The model is in eval mode."""
        order = sorted(range(len(self.samples)), key=lambda i: self.samples.lengths[i][parallel])
        right = [True] * len(order)
        collate = Collator(0, 8)
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            batch = collate([[self.samples.example(i, parallel=parallel)] for i in chosen])
            with torch.inference_mode():
                wrong = logits_of(model, batch).argmax(-1) != batch["labels"]
            for row in batch["rows"][wrong].tolist():
                right[chosen[row]] = False
        return right


def load(directory: Path) -> tuple[Any, TrainingVocabulary]:
    """A model directory as the check wants it."""
    register()
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation=NAME
    )
    return model.eval(), TrainingVocabulary.load(directory, DIALECT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--families", nargs="+", type=Family, default=list(Family))
    parser.add_argument("--layout", type=Layout, default=Layout.SERVED)
    parser.add_argument("--level", type=Level, default=Level.FULL, choices=list(Level))
    options = parser.parse_args()
    model, vocabulary = load(options.model)
    held_out = HeldOut.draw(
        vocabulary,
        options.tasks,
        options.seed,
        options.families,
        options.layout,
        options.level,
    )
    scores = held_out.check(model)
    print(json.dumps({"tasks": options.tasks, "fully_right": scores}))


if __name__ == "__main__":
    main()
