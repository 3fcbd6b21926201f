"""llama.cpp's unified KV cache without a model: what a token's KV is, is a hash.

The value of a token is a hash of its id, its position and the sum of the values it attends to,
and its logits are drawn from that value. So an engine over this library computes exactly what
the oracle here computes, or something visibly else; there is no noise and there are no ties.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from unittest.mock import patch

import numpy as np

from multiverse_shared.tree import Context, Text
from multiverse_worker.contract import Ids, Logits
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import DecodeError, LibraryOptions, NoSlotError
from multiverse_worker.tier.pieces import Piece
from multiverse_worker.tier.transfer import Transfer
from tests.conformance.oracle import lay_out

VOCAB = 48
NO_SLOT = 1
_MASK = (1 << 64) - 1


def value_of(token: int, position: int, seen: int) -> int:
    data = b"".join(part.to_bytes(8, "little") for part in (token, position, seen & _MASK))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def logits_of(value: int) -> Logits:
    return np.random.default_rng(value).standard_normal(VOCAB).astype(np.float32)


@dataclass(slots=True)
class _Cell:
    position: int
    value: int
    sequences: set[int] = field(default_factory=set)


class SymbolicLibrary:
    """Stands in for `Library`, and is as strict as llama.cpp about positions and room.

    The next batches fail with the codes in `failures`.
    """

    vocab_size = VOCAB
    trained_context = 4096
    cells_passed_by = 1 << 20  # no bound on idle cells

    def __init__(self, options: LibraryOptions) -> None:
        self._size = options.kv_cells
        self._batch = options.batch_tokens
        self._cells: list[_Cell] = []
        self.computed = 0  # tokens
        self.failures: deque[int] = deque()
        self.refuses = False  # what is to land
        self.closed = False

    @property
    def used(self) -> int:
        return len(self._cells)

    def compute(
        self, ids: list[int], positions: list[int], sequences: list[int], wanted: list[bool]
    ) -> list[Logits]:
        assert 0 < len(ids) <= self._batch, "a batch has 1 to batch_tokens tokens"
        code = self.failures.popleft() if self.failures else 0
        if code == NO_SLOT or self.used + len(ids) > self._size:
            raise NoSlotError
        if code:
            raise DecodeError(code)
        rows: list[Logits] = []
        for token, position, sequence, want in zip(ids, positions, sequences, wanted, strict=True):
            assert position == self.last_position(sequence) + 1, "a gap, or a position twice"
            seen = sum(cell.value for cell in self._cells if sequence in cell.sequences)
            value = value_of(token, position, seen)
            self._cells.append(_Cell(position, value, {sequence}))
            if want:
                rows.append(logits_of(value))
        self.computed += len(ids)
        return rows

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        for cell in self._cells:
            if source in cell.sequences and start <= cell.position < stop:
                cell.sequences.add(target)

    def remove(self, sequence: int) -> None:
        for cell in self._cells:
            cell.sequences.discard(sequence)
        self._cells = [cell for cell in self._cells if cell.sequences]

    def export(self, sequence: int, start: int, stop: int) -> bytes:
        own = [cell for cell in self._cells if sequence in cell.sequences]
        return pickle.dumps([(c.position, c.value) for c in own if start <= c.position < stop])

    def land(self, raw: bytes, sequence: int, piece: Piece, start: int) -> bool:
        cells = pickle.loads(raw)
        if self.refuses or sorted(position for position, _ in cells) != list(piece.places):
            return False
        taken = [_Cell(*cell, {sequence}) for cell in cells if cell[0] >= start]
        assert self.used + len(taken) <= self._size, "room was not made"
        self._cells += taken
        return True

    def last_position(self, sequence: int) -> int:
        own = (cell.position for cell in self._cells if sequence in cell.sequences)
        return max(own, default=-1)

    def close(self) -> None:
        self.closed = True


@contextmanager
def symbolic_engine(
    *,
    kv_cells: int = 4096,
    sequences: int = 64,
    batch_tokens: int = 32,
    idle_cells: int | None = None,
    clock: Callable[[], float] = lambda: 0.0,
    transfer: Transfer | None = None,
) -> Iterator[LlamaCppEngine]:
    """The llama.cpp engine over the symbolic library."""
    options = LibraryOptions(Path("none"), kv_cells, sequences, batch_tokens, idle_cells=idle_cells)
    with patch("multiverse_worker.engines.llamacpp.engine.Library", SymbolicLibrary):
        engine = LlamaCppEngine(
            options, "symbolic", clock, check=True, transfer=transfer or Transfer()
        )
    yield engine
    engine.close()


def library_of(engine: LlamaCppEngine) -> SymbolicLibrary:
    library = engine._library
    assert isinstance(library, SymbolicLibrary)
    return library


def expected_values(context: Context) -> list[int]:
    """The value of each token, in linear order, from the definition of the stitch rule."""
    layout = lay_out(context)
    visible = layout.visible
    values: list[int] = []
    for index, token in enumerate(layout.ids):
        seen = sum(value for value, sees in zip(values, visible[index], strict=False) if sees)
        values.append(value_of(token, layout.positions[index], seen))
    return values


def expected_logits(context: Context) -> Logits:
    """[S, vocab]"""
    return np.stack([logits_of(value) for value in expected_values(context)])


def expected_greedy(context: Context, tokens: int) -> Ids:
    """What greedy decoding must write behind `context`."""
    written: list[int] = []
    for _ in range(tokens):
        now = (*context, Text(tuple(written)))
        written.append(int(logits_of(expected_values(now)[-1]).argmax()))
    return tuple(written)
