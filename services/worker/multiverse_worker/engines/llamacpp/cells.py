"""Exact accounting of the KV pool: which sequence holds which cells, and for whom.

Mirrors the metadata of llama.cpp's unified cache, which the library does not report. Knows
positions and counts; no tokens.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.int32]


class Use(IntEnum):
    """What a sequence is held for. A cell counts for the first of these that holds it."""

    RUNNING = 0
    LEASED = 1
    IDLE = 2


class Census(NamedTuple):
    """Cells of the pool, each counted once; their sum is the pool."""

    running: int
    leased: int
    idle: int
    free: int


class CellLedger:
    """Reference counts of cells; free + running + leased + idle = pool at any time."""

    def __init__(self, cells: int) -> None:
        self.total = cells
        self._holders = np.zeros((len(Use), cells), np.int32)  # sequences per use and cell
        self._free = list(range(cells - 1, -1, -1))
        self._cells: dict[int, array[int]] = {}
        self._positions: dict[int, array[int]] = {}
        self._uses: dict[int, Use] = {}
        self._counts = np.array([0, 0, 0, cells])  # in the order of Census

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def census(self) -> Census:
        """Kept up with every change: cheap."""
        return Census(*map(int, self._counts))

    def open(self, sequence: int) -> None:
        """Begin an empty sequence, for a running branch."""
        assert sequence not in self._cells, f"sequence {sequence} is in use"
        self._cells[sequence] = array("i")
        self._positions[sequence] = array("i")
        self._uses[sequence] = Use.RUNNING

    def append(self, sequence: int, start: int, count: int) -> None:
        """`count` computed tokens at positions from `start` on. Check `free` first."""
        use = self._uses[sequence]
        taken = [self._free.pop() for _ in range(count)]
        self._holders[use, taken] += 1
        self._cells[sequence].extend(taken)
        self._positions[sequence].extend(range(start, start + count))
        self._counts[use] += count
        self._counts[-1] -= count

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        """`target` also holds the cells of `source` at positions [start, stop)."""
        cells = np.frombuffer(self._cells[source], np.int32)
        positions = np.frombuffer(self._positions[source], np.int32)
        chosen = (positions >= start) & (positions < stop)
        picked = cells[chosen]
        picked_positions = positions[chosen]
        self._hold(picked, self._uses[target], 1)
        self._cells[target].frombytes(picked.tobytes())
        self._positions[target].frombytes(picked_positions.tobytes())

    def use(self, sequence: int, use: Use) -> None:
        """From now on `sequence` is held for something else."""
        cells = np.frombuffer(self._cells[sequence], np.int32)
        self._hold(cells, use, 1)
        self._hold(cells, self._uses[sequence], -1)
        self._uses[sequence] = use

    def use_of(self, sequence: int) -> Use:
        return self._uses[sequence]

    def share(self, one: int, other: int, start: int, stop: int) -> bool:
        """Whether two sequences hold a common cell at positions [start, stop)."""
        return bool(np.isin(self._at(one, start, stop), self._at(other, start, stop)).any())

    def _at(self, sequence: int, start: int, stop: int) -> Cells:
        positions = np.frombuffer(self._positions[sequence], np.int32)
        cells = np.frombuffer(self._cells[sequence], np.int32)
        return cells[(positions >= start) & (positions < stop)]

    def close(self, sequence: int) -> None:
        """Forget a sequence; cells that nobody else holds are free again."""
        cells = np.frombuffer(self._cells.pop(sequence), np.int32)
        del self._positions[sequence]
        self._hold(cells, self._uses.pop(sequence), -1)
        self._free.extend(cells[self._holders[:, cells].sum(axis=0) == 0].tolist())

    def _hold(self, cells: Cells, use: Use, change: int) -> None:
        before = self._classes(cells)
        self._holders[use, cells] += change
        self._counts += self._classes(cells) - before

    def _classes(self, cells: Cells) -> NDArray[np.int64]:
        """How many of these cells count for each entry of a census."""
        held = self._holders[:, cells] > 0
        first = np.where(held.any(axis=0), held.argmax(axis=0), len(Use))
        return np.bincount(first, minlength=len(Use) + 1)

    def check(self) -> None:
        """Assert that the books add up."""
        held = np.zeros((len(Use), self.total), np.int32)
        for sequence, cells in self._cells.items():
            np.add.at(held[self._uses[sequence]], np.frombuffer(cells, np.int32), 1)
        assert (held == self._holders).all(), "holders are miscounted"
        assert sum(self.census) == self.total, "free + running + leased + idle != pool"
        counted = Census(*map(int, self._classes(np.arange(self.total, dtype=np.int32))))
        assert counted == self.census, f"the census says {self.census}, there are {counted}"
        assert len(self._free) == self.census.free, "free cells are miscounted"
        assert len(set(self._free)) == len(self._free), "a cell is free twice"
