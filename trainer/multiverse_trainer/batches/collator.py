"""Rows of examples as the tensors of one micro-batch.

Shape suffixes: b rows, s tokens of a row, d spans of a token, n tokens that bear loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multiverse_trainer.attention.example import Example
from multiverse_trainer.attention.spans import Run, runs_of, span_table

Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Collator:
    """Pads rows with `pad` to a multiple of `multiple` tokens.

    The batch: input_ids_bs and position_ids_bs; first_bds and last_bds, the spans of each token;
    labels_n with rows_n and sources_n: the id that row `rows_n` predicts at token `sources_n`.
    """

    pad: int
    multiple: int

    def __call__(self, rows: Sequence[Sequence[Example]]) -> Batch:
        longest = max(sum(map(len, row)) for row in rows)
        size = -(-longest // self.multiple) * self.multiple
        ids_bs = np.full((len(rows), size), self.pad, np.int64)
        positions_bs = np.zeros_like(ids_bs)
        labels: list[np.ndarray] = []
        owners: list[np.ndarray] = []
        sources: list[np.ndarray] = []
        runs: list[list[Run]] = []
        for row, examples in enumerate(rows):
            at = 0
            runs.append([])
            for example in examples:
                ids_bs[row, at : at + len(example)] = example.ids
                positions_bs[row, at : at + len(example)] = example.positions
                labels.append(example.ids[example.targets])
                owners.append(np.full(len(example.targets), row))
                sources.append(example.sources + at)
                runs[-1].extend(runs_of(example.segments, at))
                at += len(example)
        first_bds, last_bds = span_table(runs, size)
        return {
            "input_ids": torch.from_numpy(ids_bs),
            "position_ids": torch.from_numpy(positions_bs),
            "first": torch.from_numpy(first_bds),
            "last": torch.from_numpy(last_bds),
            "labels": _joined(labels),
            "rows": _joined(owners),
            "sources": _joined(sources),
        }


def _joined(parts: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.concatenate(parts).astype(np.int64))
