"""What a training will need, before it starts: memory of a device and time.

Memory: weights, gradients and AdamW's two moments at 4 bytes each (sharded over the processes
under FSDP), activations and logits. Time: 6 (with checkpointing 8) operations per weight and token,
and attention, at the speed that the device shows on a matrix product.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

_GIB = 1 << 30
_REACHED = 0.4  # of the speed of a plain matrix product, by a training step
_LAYER_VALUES = 18  # activations kept per token and layer, in units of the hidden size


@dataclass(frozen=True, slots=True)
class Work:
    """The size of a training."""

    parameters: int
    trained: int
    layers: int
    hidden: int
    vocabulary: int
    tokens: int  # of all rows
    steps: int
    row_tokens: int  # of one micro-batch on one device
    processes: int
    sharded: bool
    checkpointing: bool
    compute_bytes: int  # of an activation: 4, or 2 in BF16


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on each device and seconds in all."""

    weights: int
    optimiser: int  # gradients and moments
    activations: int
    logits: int
    seconds: float

    @property
    def memory(self) -> int:
        return self.weights + self.optimiser + self.activations + self.logits

    def as_json(self) -> dict[str, Any]:
        parts = ("weights", "optimiser", "activations", "logits", "memory")
        gib = {f"{name}_gib": round(getattr(self, name) / _GIB, 3) for name in parts}
        return {**gib, "hours": round(self.seconds / 3600, 3)}


def estimate(work: Work, flops: float) -> Estimate:
    """`flops`: operations a second of one device in a matrix product."""
    shards = work.processes if work.sharded else 1
    kept = 1 if work.checkpointing else _LAYER_VALUES
    per_token = work.hidden * work.compute_bytes
    activations = work.row_tokens * per_token * (work.layers * kept + _LAYER_VALUES)
    logits = work.row_tokens * work.vocabulary * (work.compute_bytes + 8)  # and F32 twice
    passes = 8 if work.checkpointing else 6
    dense = passes * work.parameters * work.tokens
    attention = passes * 2 * work.layers * work.hidden * work.row_tokens * work.tokens // 2
    seconds = (dense + attention) / (flops * _REACHED * work.processes)
    return Estimate(
        4 * work.parameters // shards, 12 * work.trained // shards, activations, logits, seconds
    )


def matmul_speed(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a matrix product, the best of a few."""
    size = 4096 if device.type == "cuda" else 512
    left = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(4):
        begun = time.perf_counter()
        float((left @ left)[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best
