"""Hugging Face checkpoints as GGUF files for llama.cpp.

The file carries no vocabulary: token ids stay with the tokenizer of the model directory. Tensors
are read, converted and written one by one, a few rows at a time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import gguf
import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.architectures import ModelConfig
from multiverse_worker.models.checkpoint import Checkpoint
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.quantisation import (
    Kind,
    WeightType,
    quantise,
    stored_shape,
    weight_type,
)
from multiverse_worker.models.rope import Rope

CONVERTER_VERSION = 2  # raise it when the same checkpoint gives another file
Progress = Callable[[int, int], None]  # tensors done, tensors in all
_VALUES_AT_ONCE = 1 << 22

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor of a checkpoint and what becomes of it."""

    name: str  # the new one
    shape: tuple[int, ...]
    kind: Kind
    rows: Callable[[], Iterator[NDArray[np.float32]]]  # in order, some at a time

    @property
    def stored(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return stored_shape(self.shape, self.kind)

    def read(self) -> NDArray[Any]:
        """All rows, as they are stored."""
        shape, element = self.stored
        out = np.empty(shape, element)
        at = 0
        for rows in self.rows():
            out[at : at + len(rows)] = quantise(rows, self.kind)
            at += len(rows)
        return out


def export_gguf(
    model: ModelDirectory, target: Path, type_name: str, progress: Progress | None = None
) -> None:
    """Write `model` to `target`, all at once or not at all.

    InvalidModel for what the converter does not know; it never guesses.
    """
    wanted = weight_type(type_name)
    if model.gguf:
        raise InvalidModel(
            f"{model.gguf} is a GGUF file already and is served as it is", field="model"
        )
    config = ModelConfig.read(model.path / "config.json")
    rope = Rope.of(config)
    sources = list(_sources(model, config, rope, wanted))
    coarse = sum(1 for s in sources if s.kind is Kind.F16 and wanted.matrices is not Kind.F16)
    if coarse:
        log.warning("%d matrices have rows that %s can't cut; they stay F16", coarse, type_name)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Others may be converting the same model.
    unfinished = target.with_name(f".{target.name}.{os.getpid()}-{uuid4().hex[:8]}.part")
    try:
        _write(unfinished, config, rope, wanted, sources, progress or (lambda done, total: None))
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _write(
    path: Path,
    config: ModelConfig,
    rope: Rope,
    wanted: WeightType,
    sources: list[Source],
    progress: Progress,
) -> None:
    writer = gguf.GGUFWriter(path, config.architecture.name)
    try:
        _describe(writer, config, rope, wanted)
        for source in sources:
            shape, element = source.stored
            size = int(np.prod(shape)) * element.itemsize
            writer.add_tensor_info(source.name, shape, element, size, raw_dtype=source.kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for done, source in enumerate(sources, 1):
            writer.write_tensor_data(source.read())
            progress(done, len(sources))
    finally:
        writer.close()


def _describe(writer: gguf.GGUFWriter, config: ModelConfig, rope: Rope, wanted: WeightType) -> None:
    values = config.values
    writer.add_block_count(values["num_hidden_layers"])
    writer.add_context_length(values["max_position_embeddings"])
    writer.add_embedding_length(values["hidden_size"])
    writer.add_feed_forward_length(values["intermediate_size"])
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_width)
    writer.add_value_length(config.head_width)
    rope.describe(writer)
    writer.add_layer_norm_rms_eps(values["rms_norm_eps"])
    writer.add_vocab_size(values["vocab_size"])
    writer.add_tokenizer_model("none")
    writer.add_file_type(wanted.file_type)


def _sources(
    model: ModelDirectory, config: ModelConfig, rope: Rope, wanted: WeightType
) -> Iterator[Source]:
    factors = rope.frequency_factors
    if factors is not None:
        yield Source("rope_freqs.weight", factors.shape, Kind.F32, lambda: iter((factors,)))
    names = config.tensors
    missing = set(names)
    for path in model.weights:
        checkpoint = Checkpoint.open(path)
        for name in checkpoint.names:
            if name == "lm_head.weight" and config.tied:
                continue
            if name not in names:
                raise InvalidModel(
                    f"the checkpoint has a tensor {name!r} that a {config.architecture.name} "
                    "model does not have",
                    field="model",
                )
            if name not in missing:
                raise InvalidModel(
                    f"{path} has {name}, which another file has too; keep one of them",
                    field="model",
                )
            missing.remove(name)
            shape = checkpoint.shape(name)
            yield Source(
                names[name],
                shape,
                wanted.kind(names[name], shape),
                _reader(checkpoint, name, _interleaved_head(config, names[name])),
            )
    if missing:
        raise InvalidModel(f"the checkpoint has no {', '.join(sorted(missing))}", field="model")


def _interleaved_head(config: ModelConfig, name: str) -> int | None:
    """Rows of one head, when they change places within it."""
    turned = config.architecture.pairs and name.split(".")[-2] in ("attn_q", "attn_k")
    return config.head_width if turned else None


def _reader(
    checkpoint: Checkpoint, name: str, head: int | None
) -> Callable[[], Iterator[NDArray[np.float32]]]:
    rows, *rest = checkpoint.shape(name)
    width = int(np.prod(rest)) if rest else 1
    step = head or max(1, _VALUES_AT_ONCE // width)

    def read() -> Iterator[NDArray[np.float32]]:
        for start in range(0, rows, step):
            values = checkpoint.read(name, start, min(start + step, rows))
            yield _interleave(values) if head else values

    return read


def _interleave(head: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows [2 x half, in] of one head: from halves to neighbouring pairs."""
    paired = head.reshape(2, len(head) // 2, -1).swapaxes(0, 1)
    return np.ascontiguousarray(paired.reshape(head.shape))
