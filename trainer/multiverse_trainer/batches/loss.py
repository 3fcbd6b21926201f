"""Completion-only loss of a micro-batch under Multiverse Attention.

Logits are computed at the tokens that predict something only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask

from multiverse_trainer.attention.interface import mask_for
from multiverse_trainer.batches.collator import Batch


def logits_of(
    model: nn.Module, batch: Batch, mask: Tensor | BlockMask | None = None, **inputs: Any
) -> Tensor:
    """[n, vocab]: what the model says at the source of every label.

    The mask is the device's own unless one is given; `inputs` replace `input_ids` (by embeddings,
    say).
    """
    if mask is None:
        mask = mask_for(batch["first"], batch["last"])
    kept, place_n = torch.unique(batch["sources"], return_inverse=True)
    output = model(
        **(inputs or {"input_ids": batch["input_ids"]}),
        position_ids=batch["position_ids"],
        attention_mask=mask,
        logits_to_keep=kept,
        use_cache=False,
    )
    logits: Tensor = output.logits[batch["rows"], place_n]
    return logits


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Sum over the labels of the negative log probability, in nats."""
    return functional.cross_entropy(
        logits_of(model, batch).float(), batch["labels"], reduction="sum"
    )
