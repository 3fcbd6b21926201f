"""Brings a context tree into a sequence: copies what is resident, computes the rest.

A generator of feeds: the engine computes each in its batches, however many steps that takes,
and asks for the next. Whatever was evicted meanwhile is computed again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias

from multiverse_shared.keys import KeyChain, after
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Item, Text, count
from multiverse_worker.engines.llamacpp.cache import KvCache, NoRoomError
from multiverse_worker.engines.llamacpp.index import Hit, Holding


@dataclass(slots=True)
class Feed:
    """Tokens to compute at the end of a holding."""

    holding: Holding
    ids: tuple[int, ...]
    linear: int  # index of the first one in the linear order of the branch's context
    done: int = 0
    draws: bool = False  # the next token is drawn from the logits of the last one


# None: a sequence is needed and none is free; ask again when one may be.
Feeds: TypeAlias = Generator[Feed | None, None, None]


@dataclass(slots=True)
class Loaded:
    """What the loading of one context has found, and what it holds meanwhile."""

    reused: int = 0  # tokens that did not have to be computed
    apart: list[Holding] = field(default_factory=list)  # paths that are being computed


def load(
    cache: KvCache,
    holding: Holding,
    context: Context,
    loaded: Loaded,
    linear: int = 0,
    outer: tuple[Holding, ...] = (),
    shared: int | None = None,
) -> Feeds:
    """Feeds that bring `context` (normal form), which goes on from `holding`, into it.

    `linear` is the linear index of the first token of `context`; `outer` are the holdings
    that it will be joined into. What stands at position `shared` and behind it is computed
    though it may be resident: a join can't use cells that siblings share.
    """
    fresh = holding.chain == cache.root and not outer
    hit, item, offset = _found(cache, context, shared) if fresh else (None, 0, 0)
    if hit:
        cache.adopt(holding, hit)
        before = count(context[:item]) + offset
        loaded.reused += before
        linear += before
    for step in context[item:]:
        if isinstance(step, Text):
            if step.ids[offset:]:
                yield Feed(holding, step.ids[offset:], linear)
            linear += len(step.ids) - offset
            offset = 0
        else:
            yield from _block(cache, holding, step, loaded, linear, outer)
            linear += count((step,))


def _block(
    cache: KvCache,
    holding: Holding,
    block: Block,
    loaded: Loaded,
    linear: int,
    outer: tuple[Holding, ...],
) -> Feeds:
    """Join every path of a closed block into the holding.

    A sequence can't hold a cell twice, so a path is joined as it is only if it shares no cell
    with what is joined already: paths that begin with the same tokens may have been loaded
    from one another.
    """
    cache.name(holding)
    inside = (*outer, holding)
    start = holding.chain.position
    ends = [after(path, holding.chain) for path in block.paths]
    joined = _join_folded(cache, holding, ends, inside)
    for path, end in zip(block.paths, ends, strict=True):
        if path and end.end in joined:
            joined.remove(end.end)  # another path of the same name has cells of its own
            loaded.reused += count(path)
            linear += count(path)
            continue
        resident = cache.find(end.end, inside, start, end.position) if path else None
        if resident:
            cache.join(holding, resident, end.position)
            loaded.reused += count(path)
        elif path:
            apart = yield from _open(cache, holding.chain)
            loaded.apart.append(apart)
            try:
                cache.fork(holding, apart)
                yield from load(cache, apart, path, loaded, linear, inside)
                cache.name(apart)
                cache.join(holding, apart, end.position)
            finally:
                loaded.apart.remove(apart)
                cache.discard(apart)
        linear += count(path)
    cache.close_block(holding, block)


def _join_folded(
    cache: KvCache, holding: Holding, ends: list[KeyChain], inside: tuple[Holding, ...]
) -> set[bytes]:
    """Join those paths that one sequence holds together; their keys."""
    folded = cache.folded([end.end for end in ends], inside)
    if folded is None:
        return set()
    cache.join(holding, folded, max(folded.folded.values()))
    return set(folded.folded)


def _open(cache: KvCache, chain: KeyChain) -> Generator[None, None, Holding]:
    while True:
        try:
            return cache.open(chain)
        except NoRoomError:
            yield None


def _found(cache: KvCache, context: Context, shared: int | None) -> tuple[Hit | None, int, int]:
    """The longest resident part, and where it ends: an item of the context, a token of it."""
    part = until(context, shared)
    hit = cache.longest(part)
    if hit is None:
        return None, 0, 0
    last = part[hit.item - 1]
    if hit.offset == 0 and isinstance(last, Text):  # `part` may end within a text
        return hit, hit.item - 1, len(last.ids)
    return hit, hit.item, hit.offset


def cells_to_load(cache: KvCache, context: Context, shared: int | None) -> int:
    """Cells that `load` would take of those that are free or idle now; an estimate from above."""
    hit, item, offset = _found(cache, context, shared)
    chain = hit.chain if hit else cache.root
    idle = hit is not None and hit.holding.pins == 0
    cells = count(context[:item]) + offset if idle else 0
    for step in context[item:]:
        if isinstance(step, Text):
            cells += len(step.ids) - offset
            chain = after((Text(step.ids[offset:]),), chain)
            offset = 0
        else:
            ends = {after(path, chain).end: path for path in step.paths}
            folded = cache.folded(ends)
            held = folded.folded if folded else {}
            missing = [end for end in ends if end not in held and cache.find(end) is None]
            cells += sum(count(ends[end]) for end in missing)
            chain = chain.block(step)
    return cells


def until(context: Context, position: int | None) -> Context:
    """The part of a context that stands before a position of its spine."""
    if position is None:
        return context
    items: list[Item] = []
    at = 0
    for item in context:
        if at >= position:
            break
        items.append(Text(item.ids[: position - at]) if isinstance(item, Text) else item)
        at = next_position((item,), at)
    return tuple(items)
