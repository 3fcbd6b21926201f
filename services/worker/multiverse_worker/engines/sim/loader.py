"""Brings a context tree into the simulated pool: finds what is held, feeds the rest.

A generator of feeds: the engine computes each in its batches, however many steps that takes,
and asks for the next.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_shared.layout import block_end
from multiverse_shared.tree import Block, Context, Text, count
from multiverse_worker.contract import Ids
from multiverse_worker.engines.sim.pool import Growth, KvPool, Segment


@dataclass(slots=True)
class Feed:
    """Tokens to compute at the end of a growth."""

    growth: Growth
    ids: Ids
    done: int = 0
    draws: bool = False  # the next token is drawn when all are computed


class Holding:
    """What one branch has pinned, and how many tokens it found held."""

    def __init__(self, pool: KvPool) -> None:
        self.pool = pool
        self.reused = 0
        self.pins: list[Segment] = []
        self.growth: Growth | None = None

    def pin(self, segment: Segment) -> Segment:
        self.pool.pin(segment)
        self.pins.append(segment)
        return segment

    def unpin(self, segment: Segment) -> None:
        self.pins.remove(segment)
        self.pool.unpin(segment)

    def grow(self, at: Segment, start: int) -> Growth:
        """Begin to compute behind `at`, which is pinned here."""
        assert self.growth is None
        self.growth = self.pool.grow(at, start)
        return self.growth

    def settle(self) -> Segment:
        """The end of what has grown, pinned in place of what it grew behind."""
        growth, self.growth = self.growth, None
        assert growth is not None
        end = self.pin(self.pool.settle(growth))
        self.unpin(growth.at)
        return end

    def drop(self) -> None:
        """Leave everything as ordinary cache."""
        if self.growth:
            self.settle()
        for segment in self.pins[::-1]:
            self.unpin(segment)


Feeds: TypeAlias = Generator[Feed, None, Segment]


def load(
    holding: Holding, at: Segment, start: int, context: Context, *, draws: bool = False
) -> Feeds:
    """Feeds that bring `context` (normal form) in behind `at`, where position `start` is next.

    `at` is pinned in `holding`; the end that is returned is pinned in its place. With `draws`
    the last token is computed even if it is held: what follows is drawn from it.
    """
    for number, item in enumerate(context, 1):
        if isinstance(item, Text):
            start = start if item.start is None else item.start
            at = yield from _text(holding, at, start, item.ids, draws and number == len(context))
            start += len(item.ids)
        else:
            at = yield from _block(holding, at, start, item)
            start = block_end(item, start)
    return at


def _text(holding: Holding, at: Segment, start: int, ids: Ids, draws: bool) -> Feeds:
    end, known = holding.pool.match(at, start, ids[: len(ids) - draws])
    holding.reused += known
    holding.pin(end)
    holding.unpin(at)
    if known < len(ids):
        yield Feed(holding.grow(end, start + known), ids[known:], draws=draws)
        end = holding.settle()
    return end


def _block(holding: Holding, at: Segment, start: int, block: Block) -> Feeds:
    joined = holding.pool.joined(at, start, block)
    if joined:
        holding.reused += count((block,))
        holding.pin(joined)
    else:
        ends: list[Segment] = []
        for path in block.paths:
            holding.pin(at)
            ends.append((yield from load(holding, at, start + block.path_offset, path)))
        joined = holding.pin(holding.pool.join(at, start, block, tuple(ends)))
        for end in ends:
            holding.unpin(end)
    holding.unpin(at)
    return joined
