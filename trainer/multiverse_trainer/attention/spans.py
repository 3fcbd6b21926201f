"""What each token of a packed row sees, as a few spans per token: memory linear in the row.

A token q sees token k when k <= q and k lies in one of the spans of q. Shape suffixes: b rows,
d spans of a token, s tokens of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multiverse_shared.layout import Segment
from multiverse_trainer.attention.example import Ints


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens [start, stop) of a row that share their spans."""

    start: int
    stop: int
    spans: tuple[tuple[int, int], ...]  # the last one reaches to `stop` or ends before `start`


def runs_of(segments: Sequence[Segment], offset: int = 0) -> list[Run]:
    """The segments of one tree that begins at token `offset` of its row."""
    runs: list[Run] = []
    for segment in segments:
        spans = [*segment.visible]
        if spans and spans[-1][1] == segment.start:
            spans[-1] = (spans[-1][0], segment.stop)
        else:
            spans.append((segment.start, segment.stop))
        moved = tuple((first + offset, last + offset) for first, last in spans)
        runs.append(Run(segment.start + offset, segment.stop + offset, moved))
    return runs


def width_of(runs: Sequence[Run]) -> int:
    """The most spans that a token has, rounded up to a power of two: few compiled kernels."""
    most = max((len(run.spans) for run in runs), default=1)
    return 1 << (most - 1).bit_length()


def span_table(rows: Sequence[Sequence[Run]], size: int) -> tuple[Ints, Ints]:
    """First and one-after-last token of every span, [b, d, s] each; unused ones are empty.

    What a row's runs do not cover is padding: it sees itself only.
    """
    width = max(map(width_of, rows), default=1)
    first_bds = np.zeros((len(rows), width, size), np.int32)
    last_bds = np.zeros_like(first_bds)
    for row, runs in enumerate(rows):
        used = runs[-1].stop if runs else 0
        first_bds[row, 0, used:] = np.arange(used, size)
        last_bds[row, 0, used:] = np.arange(used + 1, size + 1)
        for run in runs:
            for depth, (first, last) in enumerate(run.spans):
                first_bds[row, depth, run.start : run.stop] = first
                last_bds[row, depth, run.start : run.stop] = last
    return first_bds, last_bds
