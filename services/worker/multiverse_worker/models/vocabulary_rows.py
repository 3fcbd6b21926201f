"""The rows of a checkpoint that belong to tokens: the embedding and the output head.

Changes them in a copy of a safetensors file. Everything else is copied byte by byte, so memory
holds the changed rows only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.checkpoint import Checkpoint, to_stored
from multiverse_worker.models.directory import weights_in

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
Row: TypeAlias = NDArray[np.float32]  # [width]
Rows: TypeAlias = Mapping[int, Row]  # by token id
_BLOCK = 1 << 22


def vocabulary_tensors(directory: Path) -> dict[str, Checkpoint]:
    """Where the embedding is, and the head if the checkpoint has one.

    InvalidModel when there is no embedding or one is not a matrix.
    """
    found: dict[str, Checkpoint] = {}
    for path in weights_in(directory):
        checkpoint = Checkpoint.open(path)
        found |= {name: checkpoint for name in (EMBEDDING, HEAD) if name in checkpoint.entries}
    if EMBEDDING not in found:
        raise InvalidModel(
            f"the weights in {directory} have no {EMBEDDING}; "
            "models with the tensor names of Llama are supported",
            field="model",
        )
    for name, checkpoint in found.items():
        shape = checkpoint.entries[name]["shape"]
        if len(shape) != 2:
            raise InvalidModel(f"{name} has the shape {shape}, not [tokens, width]", field="model")
    return found


def copy_with_rows(source: Checkpoint, target: Path, changes: Mapping[str, Rows]) -> int:
    """Write `source` to `target` with rows replaced or, next to the last one, added.

    Returns how many bytes of data were added.
    """
    in_order = sorted(source.entries, key=lambda name: _span(source.entries[name])[0])
    header: dict[str, Any] = {"__metadata__": source.metadata} if source.metadata else {}
    end = 0
    for name in in_order:
        entry = source.entries[name]
        start, stop = _span(entry)
        shape = list(entry["shape"])
        size = stop - start
        if rows := changes.get(name):
            width = size // shape[0]
            shape[0] = max(shape[0], max(rows) + 1)
            size = shape[0] * width
        header[name] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with source.path.open("rb") as read, target.open("wb") as write:
        write.write(len(text).to_bytes(8, "little") + text)
        for name in in_order:
            start, stop = _span(source.entries[name])
            read.seek(source.data_start + start)
            _copy(read, write, stop - start)
            if rows := changes.get(name):
                _write_rows(write, len(text) + 8, header[name], rows)
    return end - sum(stop - start for start, stop in map(_span, source.entries.values()))


def _write_rows(file: BinaryIO, data_start: int, entry: Mapping[str, Any], rows: Rows) -> None:
    start, stop = _span(entry)
    width = (stop - start) // entry["shape"][0]
    for index, row in rows.items():
        file.seek(data_start + start + index * width)
        file.write(to_stored(row, entry["dtype"]))
    file.seek(data_start + stop)


def _span(entry: Mapping[str, Any]) -> tuple[int, int]:
    start, stop = entry["data_offsets"]
    return start, stop


def _copy(read: BinaryIO, write: BinaryIO, size: int) -> None:
    while size:
        block = read.read(min(size, _BLOCK))
        write.write(block)
        size -= len(block)
