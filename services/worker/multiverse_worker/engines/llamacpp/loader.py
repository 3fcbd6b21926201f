"""Brings a context tree into a sequence: copies what is resident, fetches or computes the rest.

A generator of feeds: the engine computes each in its batches, however many steps that takes,
and asks for the next; so it does with what has to come from the tier. Whatever was evicted
meanwhile, or does not come, is computed again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from multiverse_shared.keys import CHUNK, KeyChain, after, path_ends
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Item, Text, count
from multiverse_worker.contract import Ids
from multiverse_worker.engines.llamacpp.cache import KvCache, NoRoomError
from multiverse_worker.engines.llamacpp.index import Hit, Holding
from multiverse_worker.engines.llamacpp.landing import Landing
from multiverse_worker.tier.counts import Cause
from multiverse_worker.tier.orders import Arrival, Cut, Order, Orders
from multiverse_worker.tier.pieces import Piece, pieces


@dataclass(slots=True)
class Feed:
    """Tokens to compute at the end of a holding."""

    holding: Holding
    ids: tuple[int, ...]
    linear: int  # index of the first one in the linear order of the branch's context
    done: int = 0
    draws: bool = False  # the next token is drawn from the logits of the last one


# Something that has to arrive, or to be put into the pool, before loading goes on.
Coming: TypeAlias = Arrival | Landing
# None: a sequence is needed and none is free; ask again when one may be.
Feeds: TypeAlias = Generator[Feed | Coming | None, None, None]
_Found: TypeAlias = Generator[Feed | Coming | None, None, bool]


@dataclass(slots=True)
class Loaded:
    """What the loading of one context has found, and what it holds meanwhile."""

    reused: int = 0  # tokens that did not have to be computed
    fetched: int = 0  # of these, from the tier
    apart: list[Holding] = field(default_factory=list)  # paths that are being computed


def load(
    cache: KvCache,
    orders: Orders,
    holding: Holding,
    context: Context,
    loaded: Loaded,
    linear: int = 0,
    outer: tuple[Holding, ...] = (),
    shared: int | None = None,
    order: Order | None = None,
    head: Ids = (),
) -> Feeds:
    """Feeds that bring `context` (normal form), which goes on from `holding`, into it.

    `linear` is the linear index of the first token of `context`; `outer` are the holdings
    that it will be joined into. What stands at position `shared` and behind it is computed
    though it may be resident: a join can't use cells that siblings share. `order` is what of
    it is on its way from the tier. `head` is the token behind `context`, from whose logits the next
    one is drawn: it goes with the last feed if that ends with the context.
    """
    fresh = holding.chain == holding.root and not outer
    hit, item, offset = _found(cache, holding.root, context, shared) if fresh else (None, 0, 0)
    if hit:
        cache.adopt(holding, hit)
        before = count(context[:item]) + offset
        loaded.reused += before
        linear += before
    if fresh:
        order = _prompt(orders, holding, context)
    try:
        for number, step in enumerate(context[item:], item):
            cut = order.cut.get(number, ()) if order else ()
            if isinstance(step, Text):
                ids = step.ids[offset:]
                behind = head if number == len(context) - 1 else ()
                yield from _text(holding, ids, loaded, linear, orders, order, cut, behind)
                linear += len(ids)
                offset = 0
                continue
            arrives = False
            if order and cut:
                arrives = yield from _windows(cache, orders, holding, step, loaded, order, cut)
            if arrives:
                loaded.reused += count((step,))
                loaded.fetched += count((step,))
            else:
                known = bool(cut)  # what did not come as a whole was counted
                yield from _block(cache, orders, holding, step, loaded, linear, outer, not known)
            linear += count((step,))
    finally:
        if order:
            order.drop()


def _prompt(orders: Orders, holding: Holding, context: Context) -> Order | None:
    """Ask for what is not resident of the text that a context begins with: full chunks."""
    first = context[0] if context and orders.tier else None
    if not isinstance(first, Text) or len(first.ids) - holding.chain.position < CHUNK:
        return None
    full = [p for p in pieces((first,), holding.root) if not p.chain.pending]
    lacking = [piece for piece in full if piece.stop > holding.chain.position]
    return orders.order({0: lacking}, again=False)


def _text(
    holding: Holding,
    ids: Ids,
    loaded: Loaded,
    linear: int,
    orders: Orders,
    order: Order | None,
    cut: Sequence[Piece],
    head: Ids,
) -> Feeds:
    """Bring a text behind `holding`: pieces that arrive as they are, the rest computed."""
    start, have = holding.chain.position, 0
    for piece in cut:
        assert order is not None
        first, end = max(0, piece.start - start), piece.stop - start
        if end <= have:
            continue
        arrival = Arrival(order, piece)
        yield arrival
        if not isinstance(arrival.answer, bytes):
            continue
        if have < first:
            yield Feed(holding, ids[have:first], linear + have)
        landing = Landing(holding, piece, arrival.answer)
        yield landing
        if landing.landed:
            orders.landed(piece)
            loaded.reused += end - first
            loaded.fetched += end - first
            have = end
        else:
            orders.missed(order, piece, Cause.REFUSED)
            have = first
    if have < len(ids):
        yield Feed(holding, ids[have:] + head, linear + have, draws=bool(head))


def _windows(
    cache: KvCache,
    orders: Orders,
    holding: Holding,
    block: Block,
    loaded: Loaded,
    order: Order,
    cut: Sequence[Piece],
) -> _Found:
    """Bring a closed block behind `holding` as it was joined elsewhere; false if it is not whole.

    It lands in a sequence of its own first: what has landed by then can't be taken back.
    """
    apart = yield from _open(cache, holding.root, holding.root)
    loaded.apart.append(apart)
    try:
        for number, piece in enumerate(cut):
            arrival = Arrival(order, piece)
            yield arrival
            if isinstance(arrival.answer, Cause):
                orders.spoilt(order, cut, number, arrival.answer)
                return False
            assert arrival.answer is not None
            landing = Landing(apart, piece, arrival.answer)
            yield landing
            if not landing.landed:
                orders.missed(order, piece, Cause.REFUSED)
                orders.spoilt(order, cut, number, Cause.REFUSED)
                return False
        cache.name(holding)
        cache.join(holding, apart, cut[-1].stop)
        for piece in cut:
            orders.landed(piece)
    finally:
        loaded.apart.remove(apart)
        cache.discard(apart)
    cache.close_block(holding, block)
    return True


def _block(
    cache: KvCache,
    orders: Orders,
    holding: Holding,
    block: Block,
    loaded: Loaded,
    linear: int,
    outer: tuple[Holding, ...],
    again: bool,
) -> Feeds:
    """Join every path of a closed block into the holding.

    A sequence can't hold a cell twice, so a path is joined as it is only if it shares no cell
    with what is joined already: paths that begin with the same tokens may have been loaded
    from one another. All paths that are not resident are asked for at once; `again`: what of
    them does not come is counted as computed again.
    """
    cache.name(holding)
    inside = (*outer, holding)
    start = holding.chain.position
    ends = path_ends(block, holding.chain)
    joined = _join_folded(cache, holding, ends, inside)
    coming = {
        number: orders.order(_cut(path, holding.chain), again=again)
        for number, (path, end) in enumerate(zip(block.paths, ends, strict=True))
        if path and end.end not in joined and not cache.find(end.end, inside, start, end.position)
    }
    try:
        for number, (path, end) in enumerate(zip(block.paths, ends, strict=True)):
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
                apart = yield from _open(cache, holding.root, holding.chain)
                loaded.apart.append(apart)
                try:
                    cache.fork(holding, apart)
                    order = coming.get(number)
                    yield from load(cache, orders, apart, path, loaded, linear, inside, order=order)
                    cache.name(apart)
                    cache.join(holding, apart, end.position)
                finally:
                    loaded.apart.remove(apart)
                    cache.discard(apart)
            linear += count(path)
    finally:
        for order in coming.values():
            if order:
                order.drop()
    cache.close_block(holding, block)


def _cut(path: Context, chain: KeyChain) -> Cut:
    """The pieces of a path, by its items."""
    cut: dict[int, list[Piece]] = {}
    for number, item in enumerate(path):
        cut[number] = list(pieces((item,), chain))
        chain = after((item,), chain)
    return cut


def _join_folded(
    cache: KvCache, holding: Holding, ends: Sequence[KeyChain], inside: tuple[Holding, ...]
) -> set[bytes]:
    """Join those paths that one sequence holds together; their keys."""
    folded = cache.folded([end.end for end in ends], inside)
    if folded is None:
        return set()
    cache.join(holding, folded, max(folded.folded.values()))
    return set(folded.folded)


def _open(cache: KvCache, root: KeyChain, chain: KeyChain) -> Generator[None, None, Holding]:
    while True:
        try:
            return cache.open(root, chain)
        except NoRoomError:
            yield None


def _found(
    cache: KvCache, root: KeyChain, context: Context, shared: int | None
) -> tuple[Hit | None, int, int]:
    """The longest resident part, and where it ends: an item of the context, a token of it."""
    part = until(context, shared)
    hit = cache.longest(part, root)
    if hit is None:
        return None, 0, 0
    last = part[hit.item - 1]
    if hit.offset == 0 and isinstance(last, Text):  # `part` may end within a text
        return hit, hit.item - 1, len(last.ids)
    return hit, hit.item, hit.offset


def cells_to_load(cache: KvCache, root: KeyChain, context: Context, shared: int | None) -> int:
    """Cells that `load` would take of those that are free or idle now; an estimate from above."""
    hit, item, offset = _found(cache, root, context, shared)
    chain = hit.chain if hit else root
    idle = hit is not None and hit.holding.pins == 0
    cells = count(context[:item]) + offset if idle else 0
    for step in context[item:]:
        if isinstance(step, Text):
            cells += len(step.ids) - offset
            chain = after((Text(step.ids[offset:]),), chain)
            offset = 0
        else:
            chains = path_ends(step, chain)
            ends = {end.end: path for end, path in zip(chains, step.paths, strict=True)}
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
