"""Selection from large rows without sorting or summing all of them in order.

Equal to what a full sort selects, ties to the lower id; a full sort of 16 rows of a large
vocabulary costs more than a step of a small model. Knows arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multiverse_worker.contract import Ids, Logits

Indices = NDArray[np.intp]
Wide = NDArray[np.float64]

_WIDEST_GROUP = 64
_SUMMED = 64
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
    left: Indices = ids[kept]
    return left


def most_probable(row: Logits, number: int) -> Ids:
    """The ids of `largest`, largest first."""
    ids = largest(row, number)
    return tuple(ids[np.argsort(-row[ids], kind="stable")].tolist())


def nucleus(exponents: Wide, weights: Wide, share: float) -> Indices:
    """The fewest most probable entries whose weights add up to `share` of all, ascending.

    `exponents` [n] are the natural logarithms of `weights`, 0 at most. Entries are binned by
    exponent; only the bin in which the sum reaches the share is sorted.
    """
    bins = np.minimum(exponents * -_BINS_PER_NAT, _LAST_BIN).astype(np.intp)
    mass = np.bincount(bins, weights, _LAST_BIN + 1).cumsum()
    target = share * mass[-1]
    last = int(np.searchsorted(mass, target))
    members = np.flatnonzero(bins == last)
    members = members[np.argsort(-exponents[members], kind="stable")]
    sums = weights[members].cumsum() + (mass[last - 1] if last else 0.0)
    kept = bins < last
    kept[members[: int(np.searchsorted(sums, target)) + 1]] = True
    return np.flatnonzero(kept)


def pick(weights: Wide, share: float) -> int:
    """The first index at which the sum of `weights` exceeds `share`, in [0, 1), of all.

    Sums groups first, then inside one of them. An index without weight is never picked.
    """
    sums = np.add.reduceat(weights, np.arange(0, len(weights), _SUMMED)).cumsum()
    point = share * sums[-1]
    group = int(np.searchsorted(sums, point, side="right"))
    inner = weights[group * _SUMMED : (group + 1) * _SUMMED]
    within = inner.cumsum() + (sums[group - 1] if group else 0.0)
    at = int(np.searchsorted(within, point, side="right"))
    if at < len(inner):
        return group * _SUMMED + at
    return int(np.flatnonzero(weights[: (group + 1) * _SUMMED])[-1])  # sums were rounded
