"""Random context trees, small and of every shape."""

from __future__ import annotations

from functools import cache

from hypothesis import settings
from hypothesis import strategies as st

from multiverse_shared.tree import Block, Context, Item, JoinRule, Text

Offsets = tuple[int, int]
NO_OFFSETS: Offsets = (0, 0)
few = settings(max_examples=25, deadline=None)  # for tests over trees, which are slow to draw

_ANY = st.lists(st.integers(0, 9), max_size=3)
_SOME = st.lists(st.integers(0, 9), min_size=1, max_size=3)


def _text(ids: st.SearchStrategy[list[int]]) -> st.SearchStrategy[Text]:
    return st.builds(lambda taken, written: Text(tuple(taken), written), ids, st.booleans())


def _block(path: st.SearchStrategy[Context], offsets: Offsets) -> st.SearchStrategy[Block]:
    return st.lists(path, min_size=1, max_size=3).map(
        lambda paths: Block(tuple(paths), path_offset=offsets[0], join_offset=offsets[1])
    )


@cache
def trees(offsets: Offsets = NO_OFFSETS, depth: int = 3) -> st.SearchStrategy[Context]:
    """Any tree whose blocks are closed and carry `offsets`; texts and paths may be empty."""
    item: st.SearchStrategy[Item] = _text(_ANY)
    if depth:
        item |= _block(trees(offsets, depth - 1), offsets)
    return st.lists(item, max_size=3).map(tuple)


@cache
def served_trees(offsets: Offsets = NO_OFFSETS, depth: int = 2) -> st.SearchStrategy[Context]:
    """Trees as serving makes them: no text is empty, and every path begins and ends with one."""
    text = _text(_SOME)
    if not depth:
        return st.tuples(text)
    rest = st.lists(
        st.tuples(_block(served_trees(offsets, depth - 1), offsets), text), max_size=2
    ).map(lambda pairs: tuple(item for pair in pairs for item in pair))
    return st.builds(lambda first, then: (first, *then), text, rest)


@cache
def ruled_trees(rule: JoinRule, depth: int = 3) -> st.SearchStrategy[Context]:
    """Any tree under `rule`; it may end in an open block, whose paths may do so as well.

    Texts have starts of their own under "reserve" only; stitch and linear blocks have offsets.
    """
    closed = closed_trees(rule, depth)
    if not depth:
        return closed
    paths = st.lists(ruled_trees(rule, depth - 1), min_size=1, max_size=3)
    still_open = _ruled_block(rule, paths, closed=False)
    return closed | st.builds(lambda before, last: (*before, last), closed, still_open)


@cache
def closed_trees(rule: JoinRule, depth: int) -> st.SearchStrategy[Context]:
    """The same without open blocks."""
    item: st.SearchStrategy[Item] = _text(_ANY)
    if rule is JoinRule.RESERVE:
        item |= st.builds(
            lambda ids, start: Text(tuple(ids), start=start), _ANY, st.integers(0, 12)
        )
    if depth:
        paths = st.lists(closed_trees(rule, depth - 1), min_size=1, max_size=3)
        item |= _ruled_block(rule, paths, closed=True)
    return st.lists(item, max_size=3).map(tuple)


def _ruled_block(
    rule: JoinRule, paths: st.SearchStrategy[list[Context]], *, closed: bool
) -> st.SearchStrategy[Block]:
    offset = st.just(0) if rule is JoinRule.RESERVE else st.sampled_from([0, 0, -1, 2])
    return st.builds(
        lambda paths, path, join: Block(tuple(paths), rule, closed, path, join),
        paths,
        offset,
        offset,
    )
