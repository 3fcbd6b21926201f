"""A training run: the model, its optimisers, its data, and how to save and restore them.

Owns one step and the learning rate. Must not know when to stop or what to print.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_trainer.tiny.batches import IGNORED, Batch, Stream
from multiverse_trainer.tiny.muon import Muon
from multiverse_trainer.tiny.progress import Point, Score, TrainingLog
from multiverse_trainer.tiny.publish import new_model
from multiverse_trainer.tiny.vocabulary import Vocabulary

DIALECT = "multiverse"
WARM_UP = 100  # steps
LOWEST_RATE = 0.02  # of the peak, at the end of the cosine
CLIP = 1.0  # norm of the gradient
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line may change."""

    out: Path
    log: Path
    start: Path | None
    resume: bool
    tokens: int
    batch_tokens: int
    muon_rate: float
    adam_rate: float
    checkpoint_seconds: float
    final_tasks: int
    threads: int
    seed: int


class Training:
    """A model, its two optimisers, its data and how far it has come."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        dialect = load_dialect(DIALECT)
        self.vocabulary = Vocabulary(dialect)
        self.grammar = Grammar.bind(dialect, self.vocabulary)
        self.model: LlamaForCausalLM = (
            LlamaForCausalLM.from_pretrained(settings.start, dtype=torch.float32)
            if settings.start
            else new_model(self.vocabulary)
        )
        named = list(self.model.named_parameters())
        inner = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        outer = [p for name, p in named if p.ndim == 2 and "embed" in name]
        vectors = [p for _, p in named if p.ndim == 1]
        self.muon = Muon(inner, settings.muon_rate)
        self.adam = torch.optim.AdamW(
            [{"params": outer, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
            lr=settings.adam_rate,
            betas=(0.9, 0.98),
            fused=True,
        )
        self.stream = Stream(
            Random(settings.seed), self.grammar, self.vocabulary, settings.batch_tokens
        )
        if settings.start:
            self.stream.progress = 1.0  # a model that goes on learning needs no easy start
        self.log = TrainingLog()
        self.steps, self.tokens, self.seconds = 0, 0, 0.0
        self.forward: Callable[..., CausalLMOutputWithPast] = torch.compile(
            self.model, dynamic=True
        )

    def step(self, batch: Batch) -> float:
        """One update; returns the mean loss over the learned tokens."""
        rate = learning_rate(self.steps, self.tokens / self.settings.tokens)
        self.muon.rate = rate * self.settings.muon_rate
        for group in self.adam.param_groups:
            group["lr"] = rate * self.settings.adam_rate
        logits_bsv: Tensor = self.forward(
            input_ids=batch.ids_bs,
            position_ids=batch.positions_bs,
            attention_mask=batch.mask_b1ss,
            use_cache=False,
        ).logits
        loss = functional.cross_entropy(
            logits_bsv.flatten(0, 1), batch.targets_bs.flatten(), ignore_index=IGNORED
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.muon.step()
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        self.steps += 1
        self.tokens += batch.tokens
        return float(loss.detach())

    def save(self) -> None:
        """Everything needed to go on from here, beside the log."""
        path = self.settings.log / CHECKPOINT
        state = {
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "random": self.stream.rng.getstate(),
            "progress": (self.steps, self.tokens, self.seconds),
            "log": self.log.as_dict(),
        }
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)  # never half a checkpoint
        self.log.write(self.settings.log)

    def restore(self) -> None:
        """Goes on where `save` left off; FileNotFoundError without a checkpoint."""
        state = torch.load(self.settings.log / CHECKPOINT, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.stream.rng.setstate(state["random"])
        self.steps, self.tokens, self.seconds = state["progress"]
        self.stream.progress = 1.0 if self.settings.start else self.tokens / self.settings.tokens
        self.log.points = [Point(**point) for point in state["log"]["points"]]
        self.log.scores = [Score(**score) for score in state["log"]["scores"]]


def learning_rate(step: int, done: float) -> float:
    """Fraction of the peak: a linear warm-up, and a cosine over the tokens, never over time."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return min(1.0, (step + 1) / WARM_UP) * (LOWEST_RATE + (1 - LOWEST_RATE) * cosine)
