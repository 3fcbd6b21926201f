"""Types of weights: which tensor is kept in which, and how rows become blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel

Kind = gguf.GGMLQuantizationType
_EMBEDDINGS = ("token_embd.weight", "output.weight")


@dataclass(frozen=True, slots=True)
class WeightType:
    """One choice for a whole model."""

    file_type: gguf.LlamaFileType
    matrices: Kind
    embeddings: Kind  # also of the output: what every token passes through is kept finer

    def kind(self, name: str, shape: tuple[int, ...]) -> Kind:
        """Type of one tensor. Vectors stay F32; rows that are no whole blocks become F16."""
        if len(shape) < 2:
            return Kind.F32
        kind = self.embeddings if name in _EMBEDDINGS else self.matrices
        return kind if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 else Kind.F16


_TYPES = {
    "f32": WeightType(gguf.LlamaFileType.ALL_F32, Kind.F32, Kind.F32),
    "f16": WeightType(gguf.LlamaFileType.MOSTLY_F16, Kind.F16, Kind.F16),
    "q8_0": WeightType(gguf.LlamaFileType.MOSTLY_Q8_0, Kind.Q8_0, Kind.Q8_0),
    "q4_0": WeightType(gguf.LlamaFileType.MOSTLY_Q4_0, Kind.Q4_0, Kind.Q8_0),
}
WEIGHT_TYPES = tuple(_TYPES)


def weight_type(name: str) -> WeightType:
    """InvalidModel names the known ones."""
    if name not in _TYPES:
        raise InvalidModel(
            f"unknown weight type {name!r}; choose one of {', '.join(_TYPES)}", field="type"
        )
    return _TYPES[name]


def stored_shape(shape: tuple[int, ...], kind: Kind) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and element type of the bytes of a tensor."""
    if kind in (Kind.F32, Kind.F16):
        return shape, np.dtype(np.float32 if kind is Kind.F32 else np.float16)
    return tuple(gguf.quant_shape_to_byte_shape(shape, kind)), np.dtype(np.uint8)


def quantise(values: NDArray[np.float32], kind: Kind) -> NDArray[Any]:
    """Rows [..., in] as they are stored."""
    stored: NDArray[Any] = gguf.quants.quantize(values, kind)
    return stored
