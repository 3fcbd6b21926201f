"""SmolLM2-135M trained a little on generated tasks, on the CPU: do the losses fall?

Two trainings on the same easy tasks, one sample a step: in parallel, and the sequential twin. Loss
of held-out tasks before and after. Then the parallel model is served and asked; how many of its
answers have well-formed tags, and how many fork? Goes on where it was stopped when it is started
again with the same folder. One JSON line last; status 1 when a loss does not fall.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from multiverse_cli.stack import Stack
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of
from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Renderer, Rendering
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.checkpoints import latest
from multiverse_trainer.recipe.curve import draw_losses, losses_of
from multiverse_trainer.recipe.run import run
from multiverse_trainer.recipe.settings import TrainSettings, load_settings
from multiverse_trainer.recipe.vocabulary import TrainingVocabulary
from multiverse_trainer.tiny.records import record_of
from multiverse_trainer.tiny.tasks import Level, Task, make_task
from tests.bench.wellformed import wellformed

SEED, HELD_OUT_SEED = 1, 2_000_003
RENDERINGS = ("parallel", "twin")
SHOWN = 10  # points of a curve in the result
ANSWER_TOKENS = 400  # more than any right answer has


def easy_tasks(seed: int, count: int) -> list[Task]:
    rng = Random(seed)
    return [make_task(rng, level=Level.EASY) for _ in range(count)]


def records(seed: int, count: int) -> Iterator[dict[str, Any]]:
    for number, task in enumerate(easy_tasks(seed, count)):
        yield record_of(task, f"easy-{seed}-{number}")


def held_out(settings: TrainSettings, count: int) -> SampleSet:
    vocabulary = TrainingVocabulary.load(settings.model, settings.dialect)
    frame = vocabulary.frame(settings.prompt_suffix, settings.answer_lead)
    rendering = Rendering(settings.rendering)
    made = SampleSet(Renderer(vocabulary.grammar, frame), rendering, settings.max_tokens)
    made.read(parse_record(record) for record in records(HELD_OUT_SEED, count))
    return made


def judge(directory: Path, samples: SampleSet, settings: TrainSettings) -> dict[str, float]:
    """Nats per label, and the share of due tags that would be written behind what is due."""
    register()
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation=NAME
    )
    vocabulary = TrainingVocabulary.load(settings.model, settings.dialect)
    vocabulary.initialise(model, settings.tag_rows if directory == settings.model else "new")
    tags = torch.tensor(sorted(vocabulary.tokens.ids.values()))
    loss = labels = due = written = 0.0
    for index in tqdm(range(len(samples)), desc=f"judge {settings.rendering}", mininterval=10):
        batch = Collator(0, 8)([[samples.example(index, parallel=True)]])
        with torch.inference_mode():
            logits = logits_of(model, batch)
        truth = batch["labels"]
        loss += float(torch.nn.functional.cross_entropy(logits, truth, reduction="sum"))
        labels += len(truth)
        tag = torch.isin(truth, tags)
        due += int(tag.sum())
        written += int((tag & (logits.argmax(-1) == truth)).sum())
    found = {"loss": round(loss / labels, 4)}
    return found | ({"tags": round(written / due, 4)} if due else {})


def train(options: argparse.Namespace, rendering: str) -> dict[str, Any]:
    """Trains in one rendering; returns its curve, and held-out losses before and after."""
    data = options.out / "tasks.jsonl"
    given: dict[str, Any] = {
        "preset": "smollm2-135m",
        "model": options.model,
        "data": [data],
        "output": options.out / rendering,
        "rendering": rendering,
        "max_steps": options.steps,
        "max_tokens": options.max_tokens,
        "pack": False,
        "shares": [1.0] * -(-options.steps // options.samples),
        "tag_rows": "all",
        "lora_rank": options.lora_rank,
        "learning_rate": options.learning_rate,
        "save_steps": max(1, options.steps // 4),
        "keep": 1,
        "cpu": True,
    }
    settings = load_settings(**given)
    samples = held_out(settings, options.held_out)
    before = judge(settings.model, samples, settings)
    summary = run(settings, resume=latest(settings.output) is not None)
    if not summary["finished"]:
        sys.exit("stopped; start again with the same folder to go on")
    after = judge(Path(summary["model"]), samples, settings)
    last = latest(settings.output)
    assert last is not None
    history = json.loads((last / "trainer_state.json").read_text("utf-8"))["log_history"]
    curve = losses_of(history)
    return {"before": before, "after": after, "curve": curve, **summary}


def ask(model: Path, count: int) -> dict[str, float]:
    """Answers of the served model to held-out tasks, one at a time."""
    rows: list[tuple[bool, bool, bool]] = []
    with Stack(model, worker_settings={"weight_type": "q8_0"}) as stack:
        for task in tqdm(easy_tasks(HELD_OUT_SEED, count), desc="ask", mininterval=10):
            body = {
                "messages": [{"role": "user", "content": task.prompt}],
                "temperature": 0,
                "max_tokens": ANSWER_TOKENS,
            }
            response = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=600)
            response.raise_for_status()
            [choice] = response.json()["choices"]
            text, ended = choice["message"]["content"], choice["finish_reason"] == "stop"
            right = ended and text.rpartition("#")[2] == task.answer
            rows.append((ended and wellformed(text), "<Path>" in text, right))
            print(json.dumps({"prompt": task.prompt, "answer": text}), file=sys.stderr)
    wellformed_, forked, exact = (statistics.mean(column) for column in zip(*rows, strict=True))
    return {"asked": count, "wellformed": wellformed_, "forked": forked, "exact": exact}


def thinned(curve: list[tuple[int, float]]) -> dict[int, float]:
    """Mean loss of every tenth part of the curve, by its last step."""
    size = -(-len(curve) // SHOWN)
    parts = [curve[at : at + size] for at in range(0, len(curve), size)]
    return {part[-1][0]: round(statistics.mean(loss for _, loss in part), 4) for part in parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("build/smollm2"))
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--held-out", type=int, default=12)
    parser.add_argument("--ask", type=int, default=20, help="tasks for the served model")
    parser.add_argument("--lora-rank", type=int, default=16, help="0 trains all weights")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--renderings", nargs="+", choices=RENDERINGS, default=RENDERINGS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record) + "\n" for record in records(SEED, options.samples))
    (options.out / "tasks.jsonl").write_text("".join(lines), "utf-8")
    result: dict[str, Any] = {"steps": options.steps}
    curves = {}
    for rendering in options.renderings:
        found = train(options, rendering)
        curves[rendering] = found["curve"]
        result[rendering] = {
            "before": found["before"],
            "after": found["after"],
            "curve": thinned(found["curve"]),
            "seconds_per_step": round(found["seconds"] / options.steps, 2),
        }
        if rendering == "parallel" and options.ask:
            result["served"] = ask(Path(found["model"]), options.ask)
    draw_losses(curves, options.out / "loss.png")
    print(json.dumps(result))
    trained = [result[rendering] for rendering in options.renderings]
    sys.exit(any(found["after"]["loss"] >= found["before"]["loss"] for found in trained))


if __name__ == "__main__":
    main()
