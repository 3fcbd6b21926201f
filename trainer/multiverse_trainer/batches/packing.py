"""Picks packed into rows: samples side by side that do not see each other.

Next fit in the order of the picks, so that the order is kept and a row never mixes two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from multiverse_trainer.batches.curriculum import Pick

Row = tuple[Pick, ...]


def pack(
    passes: Iterable[Sequence[Pick]], length_of: Callable[[Pick], int], size: int, *, several: bool
) -> list[Row]:
    """Rows of at most `size` tokens; one pick a row unless `several`."""
    rows: list[Row] = []
    for picks in passes:
        row: list[Pick] = []
        used = 0
        for pick in picks:
            length = length_of(pick)
            if row and (not several or used + length > size):
                rows.append(tuple(row))
                row, used = [], 0
            row.append(pick)
            used += length
        if row:
            rows.append(tuple(row))
    return rows
