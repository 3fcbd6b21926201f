"""llama.cpp's low-level interface, as few calls as the engine needs.

Knows ctypes. Must not know branches, keys or leases.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from multiverse_shared.errors import InvalidModel
from multiverse_worker.contract import Logits
from multiverse_worker.engines.llamacpp.model import load_model
from multiverse_worker.tier.pieces import Piece

MAX_SEQUENCES = 256  # the library's own limit
_KV_TYPES = {"f32": 0, "f16": 1}
_NO_SLOT = 1
# A look at a cell that a query does not see takes, for each head of a layer, as long as some 25
# weights do (measured: F16 cells, flash attention, one thread); for a quarter of the time: 100.
_WEIGHTS_A_LOOK = 100


@dataclass(frozen=True, slots=True)
class LibraryOptions:
    """How the model is loaded."""

    model: Path
    kv_cells: int = 8192
    sequences: int = 64
    batch_tokens: int = 512
    threads: int = 1
    kv_type: str = "f16"
    flash_attention: bool = True
    transfers: bool = False  # KV goes in and out: takes one more sequence
    idle_cells: int | None = None  # that stay for later contexts, at most; None: see `KvCache`


class NoSlotError(Exception):
    """The KV pool has no room for the batch; nothing was computed."""


class DecodeError(RuntimeError):
    """The library refused the batch, or failed to compute it; nothing of it is in the pool."""

    def __init__(self, code: int) -> None:
        super().__init__(f"llama_decode failed with {code}")


class Library:
    """One loaded model with one unified KV pool shared by all sequences."""

    def __init__(self, options: LibraryOptions) -> None:
        most = MAX_SEQUENCES - options.transfers
        if not 1 <= options.sequences <= most:
            raise InvalidModel(f"sequences must be 1 to {most}", field="sequences")
        if options.batch_tokens < options.sequences:
            raise InvalidModel(
                f"batch_tokens must be at least the number of sequences ({options.sequences})",
                field="batch_tokens",
            )
        self._model = load_model(options.model)
        self._context = llama_cpp.llama_init_from_model(self._model, _parameters(options))
        if not self._context:
            llama_cpp.llama_model_free(self._model)
            raise InvalidModel(
                f"no memory for {options.kv_cells} KV cells; lower kv_cells", field="kv_cells"
            )
        self._memory = llama_cpp.llama_get_memory(self._context)
        vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self.vocab_size = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        self.trained_context = int(llama_cpp.llama_model_n_ctx_train(self._model))
        self._batch = _Batch(options.batch_tokens)
        self._spare = options.sequences  # the sequence of what comes in or goes out

    def compute(
        self, ids: list[int], positions: list[int], sequences: list[int], wanted: list[bool]
    ) -> list[Logits]:
        """One batch; returns a row [vocab] for each wanted token, in order.

        The batch must go on with each of its sequences at the position after its last one.
        NoSlotError when the pool is full, DecodeError when all else goes wrong: the sequences
        are as they were then.
        """
        self._batch.fill(ids, positions, sequences, wanted)
        result = llama_cpp.llama_decode(self._context, self._batch.struct)
        if result != 0:
            self._take_back(positions, sequences)
            raise NoSlotError if result == _NO_SLOT else DecodeError(result)
        rows = sum(wanted)
        if not rows:
            return []
        logits = llama_cpp.llama_get_logits(self._context)
        return list(np.ctypeslib.as_array(logits, shape=(rows, self.vocab_size)).copy())

    def _take_back(self, positions: list[int], sequences: list[int]) -> None:
        """Remove the cells that a failed batch may have left."""
        first = dict(zip(reversed(sequences), reversed(positions), strict=True))
        for sequence, position in first.items():
            llama_cpp.llama_memory_seq_rm(self._memory, sequence, position, -1)

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        """Let `target` see the cells of `source` at positions [start, stop): metadata only."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, start, stop)

    def export(self, sequence: int, start: int, stop: int) -> bytes:
        """The KV of the cells of a sequence at positions [start, stop)."""
        self.copy(sequence, self._spare, start, stop)
        try:
            size = llama_cpp.llama_state_seq_get_size(self._context, self._spare)
            buffer = np.empty(size, np.uint8)
            pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
            written = llama_cpp.llama_state_seq_get_data(self._context, pointer, size, self._spare)
            return buffer[:written].tobytes()
        finally:
            self.remove(self._spare)

    def land(self, raw: bytes, sequence: int, piece: Piece, start: int) -> bool:
        """Let a sequence see the cells of exported KV from position `start` on.

        False, and nothing has changed, when the library does not take it, or when it is not
        what the piece says.
        """
        buffer = np.frombuffer(raw, np.uint8)
        pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        memory, spare = self._memory, self._spare
        if not llama_cpp.llama_state_seq_set_data(self._context, pointer, len(raw), spare):
            return False
        first = llama_cpp.llama_memory_seq_pos_min(memory, spare)
        taken = (first, self.last_position(spare)) == (piece.places[0], piece.places[-1])
        if taken:
            self.copy(spare, sequence, start, piece.stop)
        self.remove(spare)
        return taken

    def remove(self, sequence: int) -> None:
        """Forget a sequence; its cells are free when no other sequence has them."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    @property
    def cells_passed_by(self) -> int:
        """Cells that every query may look at in vain for a quarter of its time; an estimate."""
        model = self._model
        heads = int(llama_cpp.llama_model_n_head(model) * llama_cpp.llama_model_n_layer(model))
        return int(llama_cpp.llama_model_n_params(model)) // (heads * _WEIGHTS_A_LOOK)

    def last_position(self, sequence: int) -> int:
        """Largest position of a sequence; -1 when it is empty."""
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence))

    def close(self) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)


def _parameters(options: LibraryOptions) -> Any:
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = options.kv_cells
    parameters.n_batch = options.batch_tokens
    parameters.n_ubatch = options.batch_tokens
    parameters.n_seq_max = options.sequences + options.transfers
    parameters.n_threads = options.threads
    parameters.n_threads_batch = options.threads
    parameters.kv_unified = True
    parameters.flash_attn_type = int(options.flash_attention)
    parameters.type_k = parameters.type_v = _KV_TYPES[options.kv_type]
    return parameters


class _Batch:
    """A llama_batch over arrays of our own, one sequence per token."""

    def __init__(self, size: int) -> None:
        self._ids = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.zeros(size, np.int32)
        self._wanted = np.zeros(size, np.int8)
        base = self._sequences.ctypes.data
        integer = ctypes.POINTER(ctypes.c_int32)
        self._pointers = (integer * size)(
            *(ctypes.cast(base + 4 * index, integer) for index in range(size))
        )
        self.struct = llama_cpp.llama_batch(
            n_tokens=0,
            token=self._ids.ctypes.data_as(integer),
            embd=None,
            pos=self._positions.ctypes.data_as(integer),
            n_seq_id=self._counts.ctypes.data_as(integer),
            seq_id=ctypes.cast(self._pointers, ctypes.POINTER(integer)),
            logits=self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )

    def fill(
        self, ids: list[int], positions: list[int], sequences: list[int], wanted: list[bool]
    ) -> None:
        size = len(ids)
        self._ids[:size] = ids
        self._positions[:size] = positions
        self._sequences[:size] = sequences
        self._wanted[:size] = wanted
        self.struct.n_tokens = size
