"""Batches of samples as tensors, and the endless stream of them that training reads.

Knows shapes and the curriculum. Must not know the model or its optimisers.

Shape suffixes: b rows, s tokens of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from torch import Tensor

from multiverse_shared.grammar import Grammar
from multiverse_trainer.tiny.samples import Sample, make_sample
from multiverse_trainer.tiny.tasks import Level, make_task
from multiverse_trainer.tiny.vocabulary import Vocabulary

IGNORED = -100  # target of a token whose successor bears no loss
POOL = 16  # batches drawn at once, so that rows of like length meet
LENGTH_STEP = 16  # rows are padded to a multiple: fewer shapes


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded to one length; padding sees itself only and is nobody's target."""

    ids_bs: Tensor
    positions_bs: Tensor
    mask_b1ss: Tensor  # true: the token of the row may attend to that of the column
    targets_bs: Tensor
    tokens: int  # without padding


def collate(samples: Sequence[Sample], pad: int) -> Batch:
    """One batch of all samples."""
    width = _padded(max(map(len, samples)))
    shape = (len(samples), width)
    ids, positions = np.full(shape, pad), np.zeros(shape, np.int64)
    targets = np.full(shape, IGNORED)
    mask = np.zeros((*shape, width), np.bool_)
    causal = np.tri(width, dtype=np.bool_)
    for row, sample in enumerate(samples):
        size = len(sample)
        ids[row, :size] = sample.ids
        positions[row, :size] = sample.positions
        targets[row, : size - 1] = np.where(sample.learned[1:], ids[row, 1:size], IGNORED)
        for segment in sample.segments:
            start, stop = segment.start, segment.stop
            for first, last in segment.visible:
                mask[row, start:stop, first:last] = True
            mask[row, start:stop, start:stop] = causal[: stop - start, : stop - start]
        # A token that sees nothing would have no finite attention.
        mask[row, range(size, width), range(size, width)] = True
    return Batch(
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        torch.from_numpy(mask)[:, None],
        torch.from_numpy(targets),
        sum(map(len, samples)),
    )


def bucket(samples: Sequence[Sample], budget: int) -> list[list[Sample]]:
    """Rows of like length together, up to `budget` padded tokens each, never one row alone.

    A one-row batch would make the compiled model compile once more; its row is dropped.
    """
    batches: list[list[Sample]] = [[]]
    for sample in sorted(samples, key=len):
        rows = batches[-1]
        if len(rows) >= 2 and (len(rows) + 1) * _padded(len(sample)) > budget:
            batches.append(rows := [])
        rows.append(sample)
    return [rows for rows in batches if len(rows) > 1]


@dataclass(slots=True)
class Stream:
    """Endless training batches. `progress` (0..1) is set by the reader as training goes on."""

    rng: Random
    grammar: Grammar
    vocabulary: Vocabulary
    budget: int  # padded tokens per batch
    progress: float = 0.0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            samples: list[Sample] = []
            tokens = 0
            while tokens < POOL * self.budget:
                samples.append(self._draw())
                tokens += len(samples[-1])
            buckets = bucket(samples, self.budget)
            self.rng.shuffle(buckets)
            for rows in buckets:
                yield collate(rows, self.vocabulary.pad)

    def _draw(self) -> Sample:
        task = make_task(self.rng, level=draw_level(self.rng, self.progress))
        parallel = self.rng.random() < 0.5
        return make_sample(task, self.grammar, self.vocabulary, parallel=parallel)


def draw_level(rng: Random, progress: float) -> Level:
    """The curriculum: mostly easy tasks for the first 15% of training, then all kinds."""
    draw = rng.random()
    if draw < 0.15:
        return Level.CONCLUSION
    if progress < 0.15:
        return Level.EASY if draw < 0.8 else Level.FULL
    return Level.SHORT if draw < 0.4 else Level.FULL


def _padded(length: int) -> int:
    return -(-length // LENGTH_STEP) * LENGTH_STEP
