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
        self._entry = np.full(cells, len(Use), np.int8)  # of a census that each cell counts for
        self._marks = np.zeros(cells, np.bool_)  # all false between two calls
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
        for cell in taken:  # mostly one: a decoded token
            self._holders[use, cell] = 1
            self._entry[cell] = use
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
        self._holders[self._uses[target], picked] += 1
        self._recount(picked)
        self._cells[target].frombytes(picked.tobytes())
        self._positions[target].frombytes(picked_positions.tobytes())

    def use(self, sequence: int, use: Use) -> None:
        """From now on `sequence` is held for something else."""
        cells = np.frombuffer(self._cells[sequence], np.int32)
        self._holders[use, cells] += 1
        self._holders[self._uses[sequence], cells] -= 1
        self._recount(cells)
        self._uses[sequence] = use

    def use_of(self, sequence: int) -> Use:
        return self._uses[sequence]

    def share(self, one: int, other: int, start: int, stop: int) -> bool:
        """Whether two sequences hold a common cell at positions [start, stop)."""
        cells = self._at(one, start, stop)
        self._marks[cells] = True
        shared = bool(self._marks[self._at(other, start, stop)].any())
        self._marks[cells] = False
        return shared

    def _at(self, sequence: int, start: int, stop: int) -> Cells:
        positions = np.frombuffer(self._positions[sequence], np.int32)
        cells = np.frombuffer(self._cells[sequence], np.int32)
        return cells[(positions >= start) & (positions < stop)]

    def close(self, sequence: int) -> None:
        """Forget a sequence; cells that nobody else holds are free again."""
        cells = np.frombuffer(self._cells.pop(sequence), np.int32)
        del self._positions[sequence]
        self._holders[self._uses.pop(sequence), cells] -= 1
        entries = self._recount(cells)
        self._free.extend(cells[entries == len(Use)].tolist())

    def _recount(self, cells: Cells) -> NDArray[np.int8]:
        """Count these cells, whose holders have changed, anew; the entries they count for now."""
        size = len(Use) + 1
        self._counts -= np.bincount(self._entry[cells], minlength=size)
        entries = self._entries(cells)
        self._entry[cells] = entries
        self._counts += np.bincount(entries, minlength=size)
        return entries

    def _entries(self, cells: Cells) -> NDArray[np.int8]:
        """The entry of a census that each of these cells counts for, by its holders."""
        running, leased, idle = self._holders[:, cells] > 0
        entries = np.where(idle, Use.IDLE, len(Use))
        entries = np.where(running, Use.RUNNING, np.where(leased, Use.LEASED, entries))
        return entries.astype(np.int8)

    def check(self) -> None:
        """Assert that the books add up."""
        held = np.zeros((len(Use), self.total), np.int32)
        for sequence, cells in self._cells.items():
            np.add.at(held[self._uses[sequence]], np.frombuffer(cells, np.int32), 1)
        assert (held == self._holders).all(), "holders are miscounted"
        assert sum(self.census) == self.total, "free + running + leased + idle != pool"
        entries = self._entries(np.arange(self.total, dtype=np.int32))
        assert (entries == self._entry).all(), "a cell counts for what does not hold it"
        counted = Census(*map(int, np.bincount(entries, minlength=len(Census._fields))))
        assert counted == self.census, f"the census says {self.census}, there are {counted}"
        assert not self._marks.any(), "a mark was left behind"
        assert len(self._free) == self.census.free, "free cells are miscounted"
        assert len(set(self._free)) == len(self._free), "a cell is free twice"
