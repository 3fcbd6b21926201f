"""Layouts that leave out one thing each, to measure what it is worth. Never served.

Knows how they differ from the layout of `multiverse_shared`; must not know tensors.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from enum import StrEnum

from multiverse_shared.layout import Segment, Span, positions, visibility
from multiverse_shared.tree import Block, Context, Text, count


class Layout(StrEnum):
    """How the tokens of a tree are laid out in a training or a check."""

    SERVED = "served"  # as engines do it
    NO_RESTART = "no-restart"  # positions run on from path to path
    NO_ISOLATION = "no-isolation"  # a path sees its earlier siblings
    LEAK = "leak"  # it sees the closing tags of its earlier siblings
    DRIFT = "drift"  # paths stand one later, and what follows a block two: the published engine


def lay_out(tree: Context, layout: Layout) -> tuple[list[int], list[Segment]]:
    """Position of each token in linear order, and what it sees."""
    if layout is Layout.DRIFT:
        tree = _shifted(tree)
    at, segments = positions(tree), visibility(tree)
    if layout is Layout.NO_RESTART:
        at = list(range(len(at)))
    elif layout is Layout.NO_ISOLATION:
        segments = [Segment(0, len(at), ())]
    elif layout is Layout.LEAK:
        leaks: list[tuple[Span, int]] = []
        _leaks(tree, 0, leaks)
        segments = [_with_leaks(segment, leaks) for segment in segments]
    return at, segments


def _shifted(context: Context) -> Context:
    return tuple(
        item
        if isinstance(item, Text)
        else replace(
            item,
            paths=tuple(map(_shifted, item.paths)),
            path_offset=item.path_offset + 1,
            join_offset=item.join_offset + 1,
        )
        for item in context
    )


def _leaks(context: Context, at: int, out: list[tuple[Span, int]]) -> int:
    """Of every path its later siblings and its last token; returns the index after `context`."""
    for item in context:
        if isinstance(item, Block):
            stop = at + count((item,))
            for path in item.paths:
                at = _leaks(path, at, out)
                out.append(((at, stop), at - 1))
        else:
            at += len(item.ids)
    return at


def _with_leaks(segment: Segment, leaks: list[tuple[Span, int]]) -> Segment:
    spans = list(segment.visible)
    for (start, stop), token in leaks:
        place = bisect_right(spans, (token, token + 1))
        seen = place and spans[place - 1][1] > token
        if start <= segment.start < stop and not seen:
            spans.insert(place, (token, token + 1))
    return replace(segment, visible=tuple(spans))
