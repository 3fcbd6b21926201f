"""SmolLM2-135M trained a little on generated tasks, on the CPU: does the loss fall?

Held-out loss before and after, and how many of the dialect's tags the model would write where they
are due (teacher-forced, greedy). One JSON line last; status 1 when a loss does not fall.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of
from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Renderer, Rendering
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.run import run
from multiverse_trainer.recipe.settings import TrainSettings, load_settings
from multiverse_trainer.recipe.vocabulary import TrainingVocabulary
from multiverse_trainer.tiny.records import records

HELD_OUT_SEED = 2_000_003


def held_out(settings: TrainSettings, count: int) -> SampleSet:
    vocabulary = TrainingVocabulary.load(settings.model, settings.dialect)
    frame = vocabulary.frame(settings.prompt_suffix, settings.answer_lead)
    made = SampleSet(Renderer(vocabulary.grammar, frame), Rendering.PARALLEL, settings.max_tokens)
    made.read(parse_record(record) for record in records(HELD_OUT_SEED, count))
    return made


def judge(directory: Path, samples: SampleSet, settings: TrainSettings) -> dict[str, float]:
    """Nats per label of each rendering, and the share of due tags that would be written."""
    register()
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation=NAME
    )
    vocabulary = TrainingVocabulary.load(settings.model, settings.dialect)
    vocabulary.initialise(model, settings.tag_rows if directory == settings.model else "new")
    tags = torch.tensor(sorted(vocabulary.tokens.ids.values()))
    found: dict[str, float] = {}
    for rendering in ("sequential", "parallel"):
        loss = labels = due = written = 0.0
        for index in range(len(samples)):
            example = samples.example(index, parallel=rendering == "parallel")
            batch = Collator(0, 8)([[example]])
            with torch.inference_mode():
                logits = logits_of(model, batch)
            truth = batch["labels"]
            loss += float(torch.nn.functional.cross_entropy(logits, truth, reduction="sum"))
            labels += len(truth)
            tag = torch.isin(truth, tags)
            due += int(tag.sum())
            written += int((tag & (logits.argmax(-1) == truth)).sum())
        found[rendering] = round(loss / labels, 4)
        if due:
            found["tags"] = round(written / due, 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("build/smollm2"))
    parser.add_argument("--out", type=Path, required=True, help="folder; must not have checkpoints")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=384)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--held-out", type=int, default=12)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    data = options.out / "tasks.jsonl"
    lines = (json.dumps(record) + "\n" for record in records(1, options.samples))
    data.write_text("".join(lines), "utf-8")
    given: dict[str, Any] = {
        "preset": "smollm2-135m",
        "model": options.model,
        "data": [data],
        "output": options.out / "run",
        "max_steps": options.steps,
        "max_tokens": options.max_tokens,
        "shares": [0.5],
        "tag_rows": "all",
        "save_steps": options.steps,
        "keep": 1,
        "cpu": True,
    }
    settings = load_settings(**given)
    samples = held_out(settings, options.held_out)
    before = judge(settings.model, samples, settings)
    begun = time.monotonic()
    summary = run(settings)
    seconds = time.monotonic() - begun
    after = judge(Path(summary["model"]), samples, settings)
    print(
        json.dumps(
            {
                "before": before,
                "after": after,
                "steps": summary["steps"],
                "seconds_per_step": round(summary["seconds"] / max(1, summary["steps"]), 2),
                "seconds": round(seconds, 1),
            }
        )
    )
    sys.exit(any(after[name] >= before[name] for name in ("sequential", "parallel")))


if __name__ == "__main__":
    main()
