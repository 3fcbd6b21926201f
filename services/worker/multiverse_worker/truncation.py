"""Which ids truncation leaves: by partial selection, equal to a full sort, ties to the lower id.

A full sort of a large vocabulary costs more than a step of a small model. Knows arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multiverse_worker.contract import Ids, Logits

Indices = NDArray[np.intp]
Wide = NDArray[np.float64]

_WIDEST_GROUP = 64
_BINS_PER_NAT = 16
_LAST_BIN = 1023  # everything 64 nats and more below the most probable id


def largest(row: Logits, number: int) -> Indices:
    """Ids of the `number` largest entries of `row` [n], ascending.

    Only entries that reach the `number`-th largest of the maxima of disjoint groups can be
    among them, and those are few.
    """
    if number >= len(row):
        return np.arange(len(row))
    width = max(1, min(_WIDEST_GROUP, len(row) // (8 * number)))
    groups = len(row) // width
    maxima = row[: groups * width].reshape(width, groups).max(axis=0)
    ids = np.flatnonzero(row >= np.partition(maxima, groups - number)[groups - number])
    values = row[ids]
    cut = np.partition(values, len(ids) - number)[len(ids) - number]
    kept = values > cut
    kept[np.flatnonzero(values == cut)[: number - np.count_nonzero(kept)]] = True
    return ids[kept]


def most_probable(row: Logits, number: int) -> Ids:
    """The ids of `largest`, largest first."""
    ids = largest(row, number)
    return tuple(ids[np.argsort(-row[ids], kind="stable")].tolist())


def nucleus(depths: Wide, weights: Wide, share: float) -> Indices:
    """The fewest most probable entries whose weights add up to `share` of all, ascending.

    `depths` [n] are natural logarithms of (largest weight / weight). Entries are binned by depth;
    only the bin in which the sum reaches the share is sorted.
    """
    bins = np.minimum(depths * _BINS_PER_NAT, _LAST_BIN).astype(np.intp)
    mass = np.bincount(bins, weights, _LAST_BIN + 1).cumsum()
    target = share * mass[-1]
    last = int(np.searchsorted(mass, target))
    members = np.flatnonzero(bins == last)
    members = members[np.argsort(depths[members], kind="stable")]
    sums = weights[members].cumsum() + (mass[last - 1] if last else 0.0)
    kept = bins < last
    kept[members[: int(np.searchsorted(sums, target)) + 1]] = True
    return np.flatnonzero(kept)
