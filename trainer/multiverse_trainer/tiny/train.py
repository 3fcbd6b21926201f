"""Trains the tiny model: `python -m multiverse_trainer.tiny.train --out models/multiverse-tiny`.

Owns the loop and the command line. Prints one JSON line last: the held-out scores of the
finished model.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from tqdm import tqdm

from multiverse_trainer.tiny.heldout import HeldOut
from multiverse_trainer.tiny.progress import Point, Score
from multiverse_trainer.tiny.publish import publish
from multiverse_trainer.tiny.training import DIALECT, Settings, Training

POINT_STEPS = 50  # steps per point of the log
CHECK_SEED, CHECK_TASKS = 1_000_003, 100  # on the way
FINAL_SEED = 2_000_003  # took no part in any decision on the way


def train(training: Training) -> None:
    """Runs until the token budget is spent."""
    settings = training.settings
    held_out = HeldOut.draw(CHECK_SEED, CHECK_TASKS, training.grammar, training.vocabulary)
    losses: list[float] = []
    mark_tokens, mark_seconds, saved = training.tokens, training.seconds, training.seconds
    begun = time.monotonic() - training.seconds
    bar = tqdm(total=settings.tokens, initial=training.tokens, unit="tok", unit_scale=True)
    for batch in training.stream:
        losses.append(training.step(batch))
        bar.update(batch.tokens)
        training.seconds = time.monotonic() - begun
        if not settings.start:
            training.stream.progress = training.tokens / settings.tokens
        finished = training.tokens >= settings.tokens
        if len(losses) == POINT_STEPS or finished:
            loss = sum(losses) / len(losses)
            speed = (training.tokens - mark_tokens) / (training.seconds - mark_seconds)
            minutes = round(training.seconds / 60, 2)
            training.log.points.append(
                Point(training.steps, training.tokens, minutes, round(loss, 5), round(speed))
            )
            bar.set_postfix(loss=f"{loss:.4f}", speed=f"{speed:.0f}/s")
            mark_tokens, mark_seconds = training.tokens, training.seconds
            losses.clear()
        if training.seconds - saved >= settings.checkpoint_seconds:
            report = held_out.check(training.model)
            training.log.scores.append(Score(training.tokens, report.scores, report.mistakes[:20]))
            training.save()
            bar.write(f"{training.tokens:,} tokens: {json.dumps(report.scores)}")
            saved = time.monotonic() - begun
        if finished:
            break
    bar.close()


def main() -> None:
    settings = _settings()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    settings.log.mkdir(parents=True, exist_ok=True)
    training = Training(settings)
    if settings.resume:
        training.restore()
    train(training)
    training.save()
    publish(training.model, training.vocabulary, DIALECT, settings.out)
    held_out = HeldOut.draw(FINAL_SEED, settings.final_tasks, training.grammar, training.vocabulary)
    report = held_out.check(training.model)
    training.log.scores.append(Score(training.tokens, report.scores, report.mistakes))
    training.save()
    result = {
        "tasks": settings.final_tasks,
        "fully_right": report.scores,
        "loss": training.log.points[-1].loss,
        "tokens": training.tokens,
        "steps": training.steps,
        "minutes": round(training.seconds / 60, 1),
        "tokens_per_second": round(training.tokens / training.seconds),
    }
    print(json.dumps(result))


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="multiverse_trainer.tiny.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="model directory to write")
    parser.add_argument("--log", type=Path, default=Path("build/tiny"), help="log and checkpoint")
    parser.add_argument("--start", type=Path, help="model directory to go on from")
    parser.add_argument("--resume", action="store_true", help="go on from the log's checkpoint")
    parser.add_argument("--tokens", type=int, default=14_000_000, help="length of the schedule")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="padded tokens per step")
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.003)
    parser.add_argument("--checkpoint-seconds", type=float, default=180)
    parser.add_argument("--final-tasks", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return Settings(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
