"""Two contexts share an end key exactly when token ids, positions and visibility agree.

Of two forks that differ in nothing a model can see (one path, an empty path, a path that is
nothing but a block) only this holds: what shares a key agrees.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from multiverse_shared.keys import KeyChain, after
from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.tree import Block, Context, Item, JoinRule, Text, linearise, normalise
from tests.unit.shared.definition import rows
from tests.unit.shared.strategies import ruled_trees

_ROOT = KeyChain.root("weights/layout/tenant")


def end_key(context: Context) -> bytes:
    return after(normalise(context), _ROOT).end


def seen(context: Context) -> Any:
    """All that a model can see of a context, and where it would go on."""
    places = (tuple(positions(context)), next_position(context))
    return linearise(context), places, tuple(rows(visibility(context)))


def forks_for_nothing(normal: Context) -> bool:
    """Whether some block of a normal form changes nothing, or is a path all by itself."""
    for item in normal:
        if isinstance(item, Text):
            continue
        if len(item.paths) == 1 or any(
            not p or (isinstance(p[0], Block) and len(p) == 1) for p in item.paths
        ):
            return True
        if any(forks_for_nothing(path) for path in item.paths):
            return True
    return False


# -- all small contexts ------------------------------------------------------------------------


@cache
def contexts(rule: JoinRule, tokens: int, depth: int) -> tuple[Context, ...]:
    """All contexts of so many equal tokens; blocks have one to three paths."""
    found: list[Context] = [] if tokens else [()]
    for size in range(1, tokens + 1):
        for first, rest in product(items(rule, size, depth), contexts(rule, tokens - size, depth)):
            found.append((first, *rest))
    return tuple(found)


@cache
def items(rule: JoinRule, tokens: int, depth: int) -> tuple[Item, ...]:
    starts = (None, 0, 1, 2) if rule is JoinRule.RESERVE else (None,)
    found: list[Item] = [Text((7,) * tokens, start=start) for start in starts]
    splits = [s for k in (1, 2, 3) for s in product(range(tokens + 1), repeat=k)] if depth else []
    for split in (split for split in splits if sum(split) == tokens):
        for paths in product(*(contexts(rule, size, depth - 1) for size in split)):
            found.append(Block(paths, rule))
    return tuple(found)


@pytest.mark.parametrize(
    ("rule", "tokens", "depth"),
    [
        (JoinRule.STITCH, 3, 1),
        (JoinRule.STITCH, 2, 2),
        (JoinRule.RESERVE, 2, 1),
        (JoinRule.LINEAR, 4, 1),
    ],
)
def test_of_all_small_contexts_those_share_a_key_that_agree(
    rule: JoinRule, tokens: int, depth: int
) -> None:
    agreeing: dict[bytes, set[Any]] = defaultdict(set)
    keys: dict[Any, set[bytes]] = defaultdict(set)
    for context in (c for size in range(tokens + 1) for c in contexts(rule, size, depth)):
        key, sight = end_key(context), seen(context)
        agreeing[key].add(sight)
        if not forks_for_nothing(normalise(context)):
            keys[sight].add(key)
    assert len(keys) > tokens + 1 or rule is JoinRule.LINEAR
    assert {len(sights) for sights in agreeing.values()} == {1}
    assert {len(found) for found in keys.values()} == {1}


# -- random contexts and what becomes of them ----------------------------------------------------


def paths_to_items(context: Context, way: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Where every item is: item, path, item, path, ... item."""
    found = []
    for n, item in enumerate(context):
        found.append((*way, n))
        if isinstance(item, Block):
            for p, path in enumerate(item.paths):
                found += paths_to_items(path, (*way, n, p))
    return found


def changed(context: Context, way: tuple[int, ...], data: st.DataObject) -> Context:
    """The context with one thing done to the item at `way`."""
    n, *rest = way
    item = context[n]
    if rest:
        assert isinstance(item, Block)
        number, *inner = rest
        path = changed(item.paths[number], tuple(inner), data)
        paths = (*item.paths[:number], path, *item.paths[number + 1 :])
        return (*context[:n], replace(item, paths=paths), *context[n + 1 :])
    new = changed_text(item, data) if isinstance(item, Text) else changed_block(item, data)
    return (*context[:n], *new, *context[n + 1 :])


def changed_text(text: Text, data: st.DataObject) -> Context:
    at = data.draw(st.integers(0, len(text.ids)))
    match data.draw(st.sampled_from(["cut", "author", "start", "token", "less", "wrap"])):
        case "cut":
            return (replace(text, ids=text.ids[:at]), Text(text.ids[at:]))
        case "author":
            return (replace(text, written=not text.written),)
        case "start":
            return (replace(text, start=data.draw(st.integers(0, 4))),)
        case "token":
            return (replace(text, ids=(*text.ids[:at], 3, *text.ids[at + 1 :])),)
        case "less":
            return (replace(text, ids=text.ids[:at]),)
    return (Block(((text,), (Text((4,)),))),)


def changed_block(block: Block, data: st.DataObject) -> Context:
    match data.draw(st.sampled_from(["swap", "closed", "rule", "drop", "into", "flat"])):
        case "swap":
            return (replace(block, paths=block.paths[::-1]),)
        case "closed":
            return (replace(block, closed=not block.closed),)
        case "rule":
            return (replace(block, rule=data.draw(st.sampled_from(JoinRule))),)
        case "drop":
            return (replace(block, paths=block.paths[1:]),)
        case "into":  # the last path takes what stood in the one before it
            return (replace(block, paths=(*block.paths[:-2], sum(block.paths[-2:], ()))),)
    return tuple(item for path in block.paths for item in path)


@pytest.mark.parametrize("rule", JoinRule)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_context_and_what_was_made_of_it_share_a_key_when_they_agree(
    rule: JoinRule, data: st.DataObject
) -> None:
    context = (Text((1, 2)), *data.draw(ruled_trees(rule, 2)))
    other = changed(context, data.draw(st.sampled_from(paths_to_items(context))), data)
    agree, same = seen(context) == seen(other), end_key(context) == end_key(other)
    event(f"agree: {agree}, one key: {same}")
    assert agree or not same
    if agree and not any(forks_for_nothing(normalise(c)) for c in (context, other)):
        assert same
