"""The held-out check: how many tasks a model would answer without a single wrong token.

Greedy decoding writes the reference answer exactly when, with the reference before it, every
learned token is the likeliest one. So one forward pass decides, and no decoder is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from transformers import LlamaForCausalLM

from multiverse_shared.grammar import Grammar
from multiverse_trainer.tiny.batches import IGNORED, bucket, collate
from multiverse_trainer.tiny.samples import Sample, make_sample
from multiverse_trainer.tiny.tasks import Task, make_task
from multiverse_trainer.tiny.vocabulary import Vocabulary

BUDGET = 4096  # padded tokens per forward pass
SHOWN = 60  # tokens before a wrong one


@dataclass(frozen=True, slots=True)
class Report:
    """Fractions of fully right samples by `rendering` and by `family/rendering`."""

    scores: dict[str, float]
    mistakes: tuple[str, ...]  # the first wrong token of each sample that has one


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Tasks kept out of training by a seed of their own."""

    tasks: tuple[Task, ...]
    grammar: Grammar
    vocabulary: Vocabulary

    @classmethod
    def draw(cls, seed: int, count: int, grammar: Grammar, vocabulary: Vocabulary) -> HeldOut:
        rng = Random(seed)
        return cls(tuple(make_task(rng) for _ in range(count)), grammar, vocabulary)

    def check(self, model: LlamaForCausalLM) -> Report:
        """Judges every task in both renderings. Leaves the model in training mode."""
        scores: dict[str, float] = {}
        mistakes: list[str] = []
        for rendering in ("parallel", "sequential"):
            faults = self._faults(model, parallel=rendering == "parallel")
            scores[rendering] = _right(faults)
            for family in sorted({task.family for task in self.tasks}):
                own = [
                    fault
                    for task, fault in zip(self.tasks, faults, strict=True)
                    if task.family is family
                ]
                scores[f"{family}/{rendering}"] = _right(own)
            mistakes.extend(f"{rendering} {fault}" for fault in faults if fault)
        return Report(scores, tuple(mistakes))

    def _faults(self, model: LlamaForCausalLM, *, parallel: bool) -> list[str]:
        """For each task what went wrong first, or nothing."""
        samples = [
            make_sample(task, self.grammar, self.vocabulary, parallel=parallel)
            for task in self.tasks
        ]
        place = {id(sample): index for index, sample in enumerate(samples)}
        faults = [""] * len(samples)
        batches = bucket(samples, BUDGET)
        # A row that the buckets left over must be judged too.
        seen = {id(sample) for rows in batches for sample in rows}
        batches.extend([sample] for sample in samples if id(sample) not in seen)
        for rows in batches:
            for sample, fault in zip(rows, self._judge(model, rows), strict=True):
                faults[place[id(sample)]] = fault
        return faults

    def _judge(self, model: LlamaForCausalLM, rows: Sequence[Sample]) -> list[str]:
        batch = collate(rows, self.vocabulary.pad)
        model.eval()
        with torch.no_grad():
            written_bs = model(
                input_ids=batch.ids_bs,
                position_ids=batch.positions_bs,
                attention_mask=batch.mask_b1ss,
                use_cache=False,
            ).logits.argmax(-1)
        model.train()
        wrong_bs = (written_bs != batch.targets_bs) & (batch.targets_bs != IGNORED)
        faults: list[str] = []
        for row, sample in enumerate(rows):
            places = wrong_bs[row].nonzero().flatten().tolist()
            if not places:
                faults.append("")
                continue
            first = int(places[0])
            before = self.vocabulary.decode(sample.ids[max(0, first + 1 - SHOWN) : first + 1])
            due, got = sample.ids[first + 1], int(written_bs[row, first])
            faults.append(
                f"{before} -> {self.vocabulary.tokens[got]}, not {self.vocabulary.tokens[due]}"
            )
        return faults


def _right(faults: Sequence[str]) -> float:
    return round(sum(not fault for fault in faults) / len(faults), 4) if faults else 0.0
