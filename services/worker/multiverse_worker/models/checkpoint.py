"""Reads tensors of a safetensors file as F32 arrays, BF16 included, without loading the rest.

(The safetensors library's numpy side knows no BF16, which most published checkpoints are in.)
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel

_STORED: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}
_LONGEST_HEADER = 100 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One file: an 8-byte length, a JSON header with types, shapes and places, the data."""

    path: Path
    entries: dict[str, dict[str, Any]]
    metadata: dict[str, str]
    data_start: int

    @classmethod
    def open(cls, path: Path) -> Checkpoint:
        """InvalidModel when the file is cut short or no safetensors file."""
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            try:
                if size > _LONGEST_HEADER:
                    raise ValueError
                entries = json.loads(file.read(size))
                metadata = entries.pop("__metadata__", {})
                end = max((e["data_offsets"][1] for e in entries.values()), default=0)
            except (ValueError, AttributeError, KeyError, TypeError, IndexError):
                raise InvalidModel(f"{path} is not a safetensors file", field="model") from None
        if path.stat().st_size < 8 + size + end:
            raise InvalidModel(f"{path} is cut short; fetch it again", field="model")
        return cls(path, entries, metadata, 8 + size)

    @property
    def names(self) -> list[str]:
        return list(self.entries)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.entries[name]["shape"])

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Rows [start, stop) of the tensor `name`, in F32."""
        stored = self.stored_type(name)
        entry = self.entries[name]
        rows, *rest = self.shape(name)
        width = math.prod(rest)
        stop = rows if stop is None else stop
        offset = self.data_start + entry["data_offsets"][0] + start * width * stored.itemsize
        raw = np.fromfile(self.path, stored, (stop - start) * width, offset=offset)
        return _from_stored(raw, entry["dtype"]).reshape(stop - start, *rest)

    def read_rows(self, name: str, rows: Sequence[int]) -> NDArray[np.float32]:
        """[len(rows), width] of the matrix `name` in F32."""
        stored = self.stored_type(name)
        entry = self.entries[name]
        height, width = entry["shape"]
        matrix = np.memmap(
            self.path,
            stored,
            "r",
            offset=self.data_start + entry["data_offsets"][0],
            shape=(height, width),
        )
        return _from_stored(np.asarray(matrix[list(rows)]), entry["dtype"])

    def stored_type(self, name: str) -> np.dtype[Any]:
        """Of the numbers on disk; InvalidModel when they are of a type that we can't read."""
        kind = self.entries[name]["dtype"]
        if kind not in _STORED:
            raise InvalidModel(
                f"{self.path}: {name} is {kind}; F32, F16 and BF16 are supported", field="model"
            )
        return _STORED[kind]


def to_stored(values: NDArray[np.float32], kind: str) -> bytes:
    """`values` as a file of type `kind` has them; BF16 is rounded to the nearest even."""
    if kind == "BF16":
        bits = values.astype("<f4").view("<u4")
        values = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return values.astype(_STORED[kind]).tobytes()


def _from_stored(raw: NDArray[Any], kind: str) -> NDArray[np.float32]:
    if kind == "BF16":  # the upper half of an F32
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32, copy=False)
