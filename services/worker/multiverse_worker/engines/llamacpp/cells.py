"""Exact accounting of the KV pool: which sequence holds which cells.

Mirrors the metadata of llama.cpp's unified cache, which the library does not report. Knows
positions and counts; no tokens.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray


class CellLedger:
    """Reference counts of cells; free + used = pool at any time."""

    def __init__(self, cells: int) -> None:
        self.total = cells
        self._holders = np.zeros(cells, np.int32)  # sequences that hold the cell
        self._free = list(range(cells - 1, -1, -1))
        self._cells: dict[int, array[int]] = {}
        self._positions: dict[int, array[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    def open(self, sequence: int) -> None:
        """Begin an empty sequence."""
        assert sequence not in self._cells, f"sequence {sequence} is in use"
        self._cells[sequence] = array("i")
        self._positions[sequence] = array("i")

    def append(self, sequence: int, start: int, count: int) -> None:
        """`count` computed tokens at positions from `start` on. Check `free` first."""
        taken = [self._free.pop() for _ in range(count)]
        self._holders[taken] += 1
        self._cells[sequence].extend(taken)
        self._positions[sequence].extend(range(start, start + count))

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        """`target` also holds the cells of `source` at positions [start, stop)."""
        cells = np.frombuffer(self._cells[source], np.int32)
        positions = np.frombuffer(self._positions[source], np.int32)
        chosen = (positions >= start) & (positions < stop)
        picked = cells[chosen]
        picked_positions = positions[chosen]
        self._holders[picked] += 1
        self._cells[target].frombytes(picked.tobytes())
        self._positions[target].frombytes(picked_positions.tobytes())

    def share(self, one: int, other: int, start: int, stop: int) -> bool:
        """Whether two sequences hold a common cell at positions [start, stop)."""
        return bool(np.isin(self._at(one, start, stop), self._at(other, start, stop)).any())

    def _at(self, sequence: int, start: int, stop: int) -> NDArray[np.int32]:
        positions = np.frombuffer(self._positions[sequence], np.int32)
        cells = np.frombuffer(self._cells[sequence], np.int32)
        return cells[(positions >= start) & (positions < stop)]

    def close(self, sequence: int) -> None:
        """Forget a sequence; cells that nobody else holds are free again."""
        cells = np.frombuffer(self._cells.pop(sequence), np.int32)
        del self._positions[sequence]
        self._holders[cells] -= 1
        self._free.extend(cells[self._holders[cells] == 0].tolist())

    def held_by(self, sequences: list[int]) -> int:
        """Number of cells that these sequences hold together."""
        mask: NDArray[np.bool_] = np.zeros(self.total, np.bool_)
        for sequence in sequences:
            mask[np.frombuffer(self._cells[sequence], np.int32)] = True
        return int(mask.sum())

    def check(self) -> None:
        """Assert that the books add up."""
        held = np.zeros(self.total, np.int32)
        for cells in self._cells.values():
            np.add.at(held, np.frombuffer(cells, np.int32), 1)
        assert (held == self._holders).all(), "holders are miscounted"
        assert len(self._free) == int((held == 0).sum()), "free + used != pool"
        assert len(set(self._free)) == len(self._free), "a cell is free twice"
