"""transformers' Trainer with rows that are planned ahead, our masks and our loss.

The plan of all passes is one "epoch" of rows in a fixed order, so that to resume is to skip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset, SequentialSampler
from transformers import Trainer

from multiverse_trainer.attention.example import Example
from multiverse_trainer.batches.collator import Batch
from multiverse_trainer.batches.loss import loss_of
from multiverse_trainer.batches.packing import Row
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.muon import muon_for


class PlannedRows(Dataset):  # type: ignore[misc]
    """Row i of the plan as examples."""

    def __init__(self, samples: SampleSet, rows: Sequence[Row]) -> None:
        self._samples, self._rows = samples, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> list[Example]:
        return [
            self._samples.example(pick.sample, parallel=pick.parallel) for pick in self._rows[index]
        ]


class MultiverseTrainer(Trainer):  # type: ignore[misc]
    """The loss is the mean over all labels of a step, whatever rows, micro-batches or devices."""

    def __init__(self, muon_rate: float | None, **options: Any) -> None:
        super().__init__(**options)
        self._muon_rate = muon_rate
        self.model_accepts_loss_kwargs = True  # count the labels of a step
        self._loss_shifts_labels = False  # they are given with their sources

    def _get_train_sampler(self, train_dataset: Any = None) -> SequentialSampler:
        return SequentialSampler(train_dataset or self.train_dataset)

    def create_optimizer(self, model: nn.Module | None = None) -> Optimizer:
        if self._muon_rate is None or self.optimizer is not None:
            return super().create_optimizer(model)
        args = self.args
        self.optimizer: Optimizer = muon_for(
            model or self.model,
            self._muon_rate,
            args.learning_rate,
            args.weight_decay,
            args.adam_beta2,
        )
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        labels = inputs["labels"].numel() if num_items_in_batch is None else num_items_in_batch
        loss = loss_of(model, inputs) / labels
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # gradients are averaged over them
        return (loss, {}) if return_outputs else loss
