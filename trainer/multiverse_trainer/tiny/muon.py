"""Muon: momentum whose update is made orthogonal before it is applied.

Knows matrices and their gradients only. After https://kellerjordan.github.io/posts/muon.
All matrices of one shape go through the iteration as one batch and in float32: few large
products, and no bfloat16, which many CPUs only emulate.

Shape suffixes: n matrices, r rows, c columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

MOMENTUM = 0.95
WEIGHT_DECAY = 0.05  # times the rate
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of x, x^3 and x^5 in the post's quintic


class Muon:
    """For matrices inside the model; embeddings and vectors belong to another optimiser.

    `rate` may be set anew before every step. Every matrix must have a gradient.
    """

    def __init__(self, matrices: Iterable[Parameter], rate: float) -> None:
        self.rate = rate
        self._matrices: dict[tuple[int, ...], list[Parameter]] = {}
        for matrix in matrices:
            self._matrices.setdefault(tuple(matrix.shape), []).append(matrix)
        self._average_nrc = {
            shape: torch.zeros(len(same), *shape) for shape, same in self._matrices.items()
        }

    def step(self) -> None:
        """One update from the gradients at hand."""
        with torch.no_grad():
            for shape, same in self._matrices.items():
                gradient_nrc = torch.stack([matrix.grad for matrix in same])
                average_nrc = self._average_nrc[shape].mul_(MOMENTUM).add_(gradient_nrc)
                update_nrc = orthogonal(gradient_nrc.add(average_nrc, alpha=MOMENTUM))
                scale = self.rate * max(1.0, shape[0] / shape[1]) ** 0.5
                for matrix, update_rc in zip(same, update_nrc, strict=True):
                    matrix.mul_(1 - self.rate * WEIGHT_DECAY)
                    matrix.add_(update_rc, alpha=-scale)

    def state_dict(self) -> dict[str, list[Tensor]]:
        """The momentum, by shape in order of first appearance."""
        return {"average": list(self._average_nrc.values())}

    def load_state_dict(self, state: Mapping[str, list[Tensor]]) -> None:
        """ValueError if the state is of another set of matrices."""
        if [tuple(saved.shape) for saved in state["average"]] != [
            tuple(own.shape) for own in self._average_nrc.values()
        ]:
            raise ValueError("the momentum belongs to matrices of other shapes")
        for own, saved in zip(self._average_nrc.values(), state["average"], strict=True):
            own.copy_(saved)


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
