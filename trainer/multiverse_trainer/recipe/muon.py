"""Muon: momentum whose update is made orthogonal before it is applied, with AdamW beside it.

After https://kellerjordan.github.io/posts/muon. torch.optim.Muon takes one matrix at a time, in
bfloat16, which many CPUs only emulate; here all matrices of one shape go through the iteration as
one batch in F32.

Shape suffixes: n matrices, r rows, c columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import AdamW

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of x, x^3 and x^5 in the post's quintic


class Muon(AdamW):  # type: ignore[misc]
    """Groups with `orthogonal` are matrices for Muon; AdamW takes the others.

    Momentum is part of the state of each matrix, so that checkpoints and schedules work as those
    of AdamW do. `lr` and `weight_decay` of a group mean what they mean there.
    """

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update; uses up the gradients of the matrices."""
        loss = closure() if closure else None
        with torch.no_grad():
            for group in self.param_groups:
                if group["orthogonal"]:
                    self._step(group)
        super().step()
        return loss

    def _step(self, group: dict[str, Any]) -> None:
        rate = group["lr"]
        alike: dict[torch.Size, list[Parameter]] = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                alike[matrix.shape].append(matrix)
        for shape, matrices in alike.items():
            gradient_nrc = torch.stack([matrix.grad for matrix in matrices])
            momentum_nrc = torch.stack([self._momentum(matrix) for matrix in matrices])
            momentum_nrc.mul_(MOMENTUM).add_(gradient_nrc)
            update_nrc = orthogonal(gradient_nrc.add(momentum_nrc, alpha=MOMENTUM))
            scale = rate * max(1.0, shape[0] / shape[1]) ** 0.5
            for matrix, momentum_rc, update_rc in zip(
                matrices, momentum_nrc, update_nrc, strict=True
            ):
                self.state[matrix]["momentum"].copy_(momentum_rc)
                matrix.mul_(1 - rate * group["weight_decay"]).add_(update_rc, alpha=-scale)
                matrix.grad = None  # AdamW passes it by

    def _momentum(self, matrix: Parameter) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["step"] = torch.zeros(())  # AdamW expects one where there is a state
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return momentum


def muon_for(model: nn.Module, muon_rate: float, rate: float, decay: float, beta2: float) -> Muon:
    """Muon for the matrices inside the model, AdamW for embeddings, heads and vectors."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    outer = {id(end.weight) for end in ends if end is not None}
    own = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in own if p.ndim == 2 and id(p) not in outer]
    tables = [p for p in own if p.ndim == 2 and id(p) in outer]
    vectors = [p for p in own if p.ndim != 2]
    return Muon(
        [
            {"params": matrices, "orthogonal": True, "lr": muon_rate},
            {"params": tables, "orthogonal": False},
            {"params": vectors, "orthogonal": False, "weight_decay": 0.0},
        ],
        lr=rate,
        betas=(0.9, beta2),
        weight_decay=decay,
    )


def orthogonal(matrices_nrc: Tensor) -> Tensor:
    """Each matrix with its singular values drawn to about one (Newton-Schulz)."""
    wide = matrices_nrc.size(1) <= matrices_nrc.size(2)
    x = matrices_nrc if wide else matrices_nrc.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = first * x + torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth) @ x
    return x if wide else x.mT
