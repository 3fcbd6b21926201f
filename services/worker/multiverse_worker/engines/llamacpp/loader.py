"""Brings a context tree into a sequence: copies what is resident, computes the rest.

A generator of feeds: the engine computes each in its batches, however many steps that takes,
and asks for the next. Whatever was evicted meanwhile is computed again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_shared.keys import after
from multiverse_shared.tree import Block, Context, Text, count

from multiverse_worker.engines.llamacpp.cache import Holding, KvCache


@dataclass(slots=True)
class Feed:
    """Tokens to compute at the end of a holding."""

    holding: Holding
    ids: tuple[int, ...]
    linear: int  # index of the first one in the linear order of the branch's context
    done: int = 0
    draws: bool = False  # the next token is drawn from the logits of the last one


Feeds: TypeAlias = Generator[Feed, None, None]


@dataclass(slots=True)
class Loaded:
    """Counts tokens that did not have to be computed."""

    reused: int = 0


def load(
    cache: KvCache, holding: Holding, context: Context, loaded: Loaded, linear: int = 0
) -> Feeds:
    """Feeds that bring `context` (normal form), which goes on from `holding`, into it.

    `linear` is the linear index of the first token of `context`. NoRoomError when a path has
    to be computed apart and no sequence can be had; nothing is left behind then.
    """
    item, offset = 0, 0
    hit = cache.longest(context, holding.chain) if holding.chain == cache.root else None
    if hit:
        cache.adopt(holding, hit)
        item, offset = hit.item, hit.offset
        before = count(context[:item]) + offset
        loaded.reused += before
        linear += before
    for part in context[item:]:
        if isinstance(part, Text):
            if part.ids[offset:]:
                yield Feed(holding, part.ids[offset:], linear)
            linear += len(part.ids) - offset
            offset = 0
        else:
            yield from _block(cache, holding, part, loaded, linear)
            linear += count((part,))


def _block(cache: KvCache, holding: Holding, block: Block, loaded: Loaded, linear: int) -> Feeds:
    """Join every path of a closed block into the holding."""
    cache.name(holding)
    for path in block.paths:
        end = after(path, holding.chain)
        resident = cache.find(end.end) if path else None
        if resident:
            cache.join(holding, resident, end.position)
            loaded.reused += count(path)
        elif path:
            apart = cache.open(holding.chain)
            try:
                cache.fork(holding, apart)
                yield from load(cache, apart, path, loaded, linear)
                cache.name(apart)
                cache.join(holding, apart, end.position)
            finally:
                cache.discard(apart)
        linear += count(path)
    cache.close_block(holding, block)
