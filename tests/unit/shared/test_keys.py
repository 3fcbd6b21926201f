"""Content keys: equal for what a model cannot tell apart, different for all else."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.keys import CHUNK, KeyChain, after, content_keys
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise
from tests.unit.shared.strategies import few, trees

NAMESPACE = "weights/layout/tenant"


def end_key(context: Context, namespace: str = NAMESPACE) -> bytes:
    return after(context, KeyChain.root(namespace)).end


def digest(kind: bytes, *parts: bytes) -> bytes:
    """The documented hash: each part with its length before it."""
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return blake2b(framed, digest_size=32, person=kind).digest()


def renumbered(context: Context, ids: list[int]) -> Context:
    """The same tree with other ids, taken from the front of `ids`."""
    return tuple(
        Text(tuple(ids.pop(0) for _ in item.ids), item.written)
        if isinstance(item, Text)
        else replace(item, paths=tuple(renumbered(path, ids) for path in item.paths))
        for item in context
    )


def cut(context: Context, data: st.DataObject) -> Context:
    """The same tokens in other texts by other authors."""
    out: list[Text | Block] = []
    for item in context:
        if isinstance(item, Block):
            out.append(replace(item, paths=tuple(cut(path, data) for path in item.paths)))
            continue
        at = data.draw(st.integers(0, len(item.ids)))
        out += [Text(item.ids[:at], data.draw(st.booleans())), Text(item.ids[at:])]
    return tuple(out)


PREFIX: Context = (Text(tuple(range(70))),)
LEFT: Context = (Text((1, 2, 3)),)
RIGHT: Context = (Text((4, 5)),)
TREE: Context = (*PREFIX, Block((LEFT, RIGHT)), Text((6, 7)))


def test_keys_are_pinned() -> None:
    assert end_key(TREE).hex() == (
        "f0ca68e0589dbb84e3ff3d5701e8a3c6369573f682f8dc2c5b1e5f7f83702cf6"
    )


def test_a_key_is_the_documented_hash() -> None:
    root = digest(b"root", NAMESPACE.encode())
    ids = [number.to_bytes(4, "little") for number in range(70)]
    at = [number.to_bytes(8, "little") for number in range(80)]
    chunk = digest(b"text", root, at[0], b"".join(ids[:64]))
    prefix = digest(b"text", chunk, at[64], b"".join(ids[64:70]))
    left = digest(b"text", chunk, at[64], b"".join(ids[64:70] + ids[1:4]))
    right = digest(b"text", chunk, at[64], b"".join(ids[64:70] + ids[4:6]))
    join = digest(b"join", prefix, at[73], left, right)
    assert end_key(TREE) == digest(b"text", join, at[73], b"".join(ids[6:8]))


@few
@given(trees(depth=2), st.data())
def test_the_same_tokens_in_other_texts_have_the_same_key(
    context: Context, data: st.DataObject
) -> None:
    assert end_key(cut(context, data)) == end_key(context) == end_key(normalise(context))
    assert content_keys(cut(context, data), NAMESPACE) == content_keys(context, NAMESPACE)


@few
@given(trees(depth=2).filter(count), st.data())
def test_another_token_anywhere_gives_another_key(context: Context, data: st.DataObject) -> None:
    ids = list(linearise(context))
    ids[data.draw(st.integers(0, len(ids) - 1))] += 10
    assert end_key(renumbered(context, ids)) != end_key(context)


@few
@given(st.lists(trees(depth=2), min_size=2, max_size=4))
def test_only_contexts_that_are_alike_share_a_key(contexts: list[Context]) -> None:
    alike = {repr(normalise(context)) for context in contexts}
    assert len({end_key(context) for context in contexts}) == len(alike)


@few
@given(trees(depth=2))
def test_another_namespace_shares_no_key(context: Context) -> None:
    ours = {checkpoint.key for checkpoint in content_keys(context, NAMESPACE)}
    theirs = {checkpoint.key for checkpoint in content_keys(context, "other")}
    assert ours.isdisjoint(theirs)
    assert end_key(context) != end_key(context, "other")


def test_the_order_of_the_paths_counts() -> None:
    assert end_key((*PREFIX, Block((LEFT, RIGHT)))) != end_key((*PREFIX, Block((RIGHT, LEFT))))


def test_one_path_in_a_block_is_not_plain_text() -> None:
    assert end_key((*PREFIX, Block((LEFT,)), *RIGHT)) != end_key((*PREFIX, *LEFT, *RIGHT))


def test_the_border_between_paths_counts() -> None:
    wide = Block(((Text((1, 2, 3)),), (Text((4,)),)))
    assert end_key((wide,)) != end_key((Block(((Text((1, 2)),), (Text((3, 4)),))),))


@pytest.mark.parametrize("offset", ["path_offset", "join_offset"])
def test_the_same_tokens_at_other_positions_have_another_key(offset: str) -> None:
    keys = {
        end_key((*PREFIX, replace(Block((LEFT, RIGHT)), **{offset: moved}), Text((6,))))
        for moved in (-1, 0, 1)
    }
    assert len(keys) == 3


@few
@given(trees(depth=1), trees(depth=1), trees(depth=1))
def test_a_path_ends_with_the_key_of_the_prefix_and_the_path(
    prefix: Context, path: Context, sibling: Context
) -> None:
    context = (*prefix, Block((sibling, path)))
    ends = [end_key((*prefix, *inside)) for inside in (sibling, path)]
    position = next_position(context).to_bytes(8, "little")
    assert end_key(context) == digest(b"join", end_key(prefix), position, *ends)


@few
@given(trees(depth=2))
def test_the_last_checkpoint_is_the_whole_context(context: Context) -> None:
    checkpoints = content_keys(context, NAMESPACE)
    if not normalise(context):
        assert checkpoints == []
        return
    last = checkpoints[-1]
    assert last.key == end_key(context)
    assert (last.position, last.tokens) == (next_position(context), count(context))
    assert [c.tokens for c in checkpoints] == sorted(c.tokens for c in checkpoints)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 200])
def test_there_is_a_checkpoint_after_every_64_tokens_and_at_the_end(size: int) -> None:
    assert CHUNK == 64
    ids = tuple(range(size))
    checkpoints = content_keys((Text(ids),), NAMESPACE)
    full = list(range(64, size + 1, 64))
    assert [c.tokens for c in checkpoints] == (full if size % 64 == 0 else [*full, size])
    for checkpoint in checkpoints:
        assert checkpoint.position == checkpoint.tokens
        assert checkpoint.key == end_key((Text(ids[: checkpoint.tokens]),))


def test_a_run_begins_anew_behind_a_block() -> None:
    context = (Text((9,) * 10), Block((LEFT, RIGHT)), Text((8,) * 70))
    checkpoints = content_keys(context, NAMESPACE)
    assert [(c.tokens, c.position) for c in checkpoints] == [
        (10, 10),  # the end of the first run
        (15, 13),  # the block: five tokens, three of them one after another
        (15 + 64, 13 + 64),
        (15 + 70, 13 + 70),
    ]


def test_a_path_goes_on_with_the_chunk_of_its_prefix() -> None:
    prefix, path = Text((1,) * 60), Text((2,) * 10)
    chunk = content_keys((prefix, path), NAMESPACE)[0]
    assert chunk.tokens == 64
    chain = after((prefix,), KeyChain.root(NAMESPACE))
    assert chain.text(path.ids)[0].end == chunk.key


def test_longer_contexts_share_the_checkpoints_of_their_beginning() -> None:
    ids = tuple(range(150))
    short = content_keys((Text(ids[:100]),), NAMESPACE)
    long = content_keys((Text(ids), Block((LEFT,))), NAMESPACE)
    assert short[0] == long[0]
    assert short[1] not in long, "the rest of a run is not a chunk of a longer one"
