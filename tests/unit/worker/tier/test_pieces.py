"""Pieces cover a part of a tree once, and their names say exactly what they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.keys import CHUNK, KeyChain, after
from multiverse_shared.layout import next_position, positions
from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise
from multiverse_worker.tier.pieces import Piece, pieces, split, text_pieces
from tests.unit.worker.properties import examples

NAMESPACE = "weights/engine/layout"
ROOT = KeyChain.root(NAMESPACE)


def text(*ids: int) -> Text:
    return Text(ids)


def run(length: int, first: int = 0) -> Text:
    return Text(tuple(range(first, first + length)))


def names(part: Context, chain: KeyChain = ROOT) -> list[bytes]:
    return [piece.name for piece in pieces(part, chain)]


def lengths(found: list[Piece]) -> list[int]:
    return [len(piece.places) for piece in found]


def test_a_text_is_cut_where_its_keys_are_made() -> None:
    found = list(pieces((run(150),), ROOT))
    assert lengths(found) == [64, 64, 22]
    assert [(piece.start, piece.stop) for piece in found] == [(0, 64), (64, 128), (128, 150)]
    assert found[-1].key == after((run(150),), ROOT).end
    assert found[-1].chain == after((run(150),), ROOT)


def test_a_path_travels_without_what_stands_before_it() -> None:
    before = after((run(100),), ROOT)
    found = list(pieces((run(50, 7),), before))
    assert lengths(found) == [28, 22]
    assert found[0].start == 100


def test_one_place_has_two_names_when_the_pieces_begin_elsewhere() -> None:
    whole = names((run(128),))
    path = names((Text(tuple(range(100, 128))),), after((run(100),), ROOT))
    assert whole[-1] != path[-1]


def test_a_block_is_cut_by_positions() -> None:
    block = Block(((run(100),), (run(70, 200),)))
    found = list(pieces((run(10), block, text(1)), ROOT))
    assert [(piece.start, piece.stop) for piece in found[1:]] == [(10, 74), (74, 110), (110, 111)]
    assert lengths(found) == [10, 128, 36 + 6, 1]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(KeyChain.root("other-weights/engine/layout"), id="model"),
        pytest.param(KeyChain.root("weights/engine/other-layout"), id="KV layout"),
        pytest.param(KeyChain.root(NAMESPACE, b"tenant"), id="tenant"),
    ],
)
def test_other_namespaces_share_no_name(other: KeyChain) -> None:
    part = (run(200), Block(((run(5),), (run(6, 9),))), run(70))
    assert not set(names(part)) & set(names(part, other))


def test_one_tenant_has_one_set_of_names_and_two_have_two() -> None:
    one, again, two = (KeyChain.root(NAMESPACE, salt) for salt in (b"one", b"one", b"two"))
    assert names((run(99),), one) == names((run(99),), again)
    assert not set(names((run(99),), one)) & set(names((run(99),), two))


@st.composite
def contexts(draw: st.DrawFn, depth: int = 0) -> Context:
    """Texts of 1 to 90 tokens, and blocks at most two deep."""
    items: list[Text | Block] = []
    for _ in range(draw(st.integers(0 if depth else 1, 3))):
        if depth < 2 and items and draw(st.booleans()):
            paths = tuple(draw(contexts(depth + 1)) for _ in range(draw(st.integers(1, 3))))
            items.append(Block(paths))
        else:
            ids = st.lists(st.integers(0, 3), min_size=1, max_size=90)
            items.append(Text(tuple(draw(ids))))
    return tuple(items)


@examples(60)
@given(contexts())
def test_every_token_is_in_one_piece(context: Context) -> None:
    context = normalise(context)
    found = list(pieces(context, ROOT))
    assert sum(lengths(found)) == count(context)
    places = [place for piece in found for place in piece.places]
    assert sorted(places) == sorted(positions(context))
    assert all(piece.start <= at < piece.stop for piece in found for at in piece.places)
    assert all(piece.stop - piece.start <= CHUNK for piece in found)
    assert len({piece.name for piece in found}) == len(found)


@examples(60)
@given(contexts(), contexts(depth=1))
def test_who_sends_a_path_and_who_joins_it_name_it_alike(before: Context, path: Context) -> None:
    """The sender has prefix and path as one context, in which texts have grown together."""
    before = normalise(before)
    whole = normalise((*before, *path))
    fork = next_position(before)
    prefix, own = split(whole, fork)
    assert normalise((*prefix, *own)) == whole
    sent = names(own, after(prefix, ROOT))
    wanted = names(normalise(path), after(before, ROOT))
    assert sent == wanted


@examples(60)
@given(contexts(), contexts(depth=1), st.sampled_from([0, -1]), st.booleans())
def test_who_sends_the_texts_of_a_path_and_who_joins_it_name_them_alike(
    before: Context, path: Context, offset: int, moved: bool
) -> None:
    """In linear order, whole; also where paths begin early, or at a place of their own."""
    before, path = offset_of(normalise(before), offset), offset_of(normalise(path), offset)
    fork = next_position(before)
    begins = fork + 3 if moved else fork + offset
    first, *rest = path or (run(1),)
    if isinstance(first, Text) and begins != fork:
        path = (Text(first.ids, start=begins), *rest)
    whole = normalise((*before, *path))
    prefix, own = split(whole, fork)
    assert normalise((*prefix, *own)) == whole
    sent = list(text_pieces(own, after(prefix, ROOT)))
    assert tuple(token for piece in sent for token in piece.ids) == linearise(path)
    block = Block((path,), path_offset=0)
    wanted = text_pieces((block,), after(before, ROOT))
    assert [piece.name for piece in sent] == [piece.name for piece in wanted]


def offset_of(context: Context, offset: int) -> Context:
    """The same with blocks whose paths and conclusions begin `offset` from where they would."""
    return tuple(
        Block(
            tuple(offset_of(path, offset) for path in item.paths),
            path_offset=offset,
            join_offset=offset,
        )
        if isinstance(item, Block)
        else item
        for item in context
    )


def test_no_context_is_split_inside_a_block() -> None:
    with pytest.raises(ValueError, match="inside a block"):
        split((run(5), Block(((run(9),),)), text(1)), 7)
