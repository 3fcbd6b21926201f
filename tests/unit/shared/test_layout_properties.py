"""The layout of random trees equals one worked out token by token from the definition.

The definition: every path of a block starts at (position after the token before the block) +
path_offset; the token after the block stands at (one after the largest position reached
inside it) + join_offset; a token sees every earlier token in linear order but those of a
sibling path.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise
from tests.unit.shared.strategies import NO_OFFSETS, Offsets, few, served_trees, trees

Choices = dict[int, int]  # block -> the path of it that a token is in


def place(context: Context, at: int) -> tuple[list[int], int]:
    """Positions of the tokens, and the position after them, when the first stands at `at`."""
    out: list[int] = []
    for item in context:
        if isinstance(item, Text):
            for _ in item.ids:
                out.append(at)
                at += 1
        else:
            inside = [p for path in item.paths for p in place(path, at + item.path_offset)[0]]
            out += inside
            at = (max(inside) + 1 if inside else at) + item.join_offset
    return out, at


def choices(context: Context, inside: Choices, blocks: Iterator[int]) -> Iterator[Choices]:
    """For each token in linear order: which path of which blocks it is in."""
    for item in context:
        if isinstance(item, Text):
            for _ in item.ids:
                yield inside
        else:
            block = next(blocks)
            for number, path in enumerate(item.paths):
                yield from choices(path, inside | {block: number}, blocks)


def sees(reader: Choices, other: Choices) -> bool:
    """Whether two tokens are in no two sibling paths."""
    return all(reader[block] == other[block] for block in reader.keys() & other.keys())


def seen_by_definition(context: Context) -> list[set[int]]:
    tokens = list(choices(context, {}, iter(range(count(context) + 10_000))))
    return [{j for j in range(i + 1) if sees(reader, tokens[j])} for i, reader in enumerate(tokens)]


def seen_by_segments(context: Context) -> list[set[int]]:
    return [
        {j for start, stop in segment.visible for j in range(start, stop)}
        | set(range(segment.start, index + 1))
        for segment in visibility(context)
        for index in range(segment.start, segment.stop)
    ]


@few
@given(trees(), st.integers(0, 50))
def test_positions_follow_from_the_definition(context: Context, start: int) -> None:
    assert (positions(context, start), next_position(context, start)) == place(context, start)


@pytest.mark.parametrize("offsets", [(-1, -1), (3, 2)])
@few
@given(data=st.data())
def test_positions_with_offsets_follow_from_the_definition(
    offsets: Offsets, data: st.DataObject
) -> None:
    context = data.draw(served_trees(offsets))
    assert (positions(context), next_position(context)) == place(context, 0)


def test_an_empty_text_in_a_path_does_not_move_what_follows_the_block() -> None:
    for empty in ((), (Text(()),), (Text((), written=True), Text(()))):
        block = Block((empty,), path_offset=-1)
        assert next_position((Text((1, 2, 3)), block)) == 3


def test_a_nested_block_at_the_end_of_a_path_reaches_only_as_far_as_its_tokens() -> None:
    inner = Block(((Text((7, 8)),),), path_offset=-1, join_offset=-1)  # at positions 2 and 3
    outer = Block(((Text((6,)), inner),), path_offset=-1, join_offset=-1)
    context = (Text((1, 2, 3)), outer)
    assert positions(context) == [0, 1, 2, 2, 2, 3]
    assert next_position(context) == 3 + 1 - 1


@pytest.mark.parametrize("offsets", [NO_OFFSETS, (-1, -1)])
@few
@given(data=st.data())
def test_contexts_that_a_model_cannot_tell_apart_lie_alike(
    offsets: Offsets, data: st.DataObject
) -> None:
    context = data.draw(trees(offsets, 2))
    assert positions(normalise(context)) == positions(context)
    assert next_position(normalise(context)) == next_position(context)
    assert seen_by_segments(normalise(context)) == seen_by_segments(context)


@few
@given(trees())
def test_visibility_follows_from_the_definition(context: Context) -> None:
    assert seen_by_segments(context) == seen_by_definition(context)


@few
@given(trees())
def test_segments_tile_the_tokens_and_look_back_only(context: Context) -> None:
    segments = visibility(context)
    borders = [0, *(segment.stop for segment in segments)]
    assert [segment.start for segment in segments] == borders[:-1]
    assert borders[-1] == len(linearise(context))
    for segment in segments:
        edges = [edge for span in segment.visible for edge in span]
        assert edges == sorted(set(edges)), "spans are disjoint, ascending and merged"
        assert not edges or edges[-1] <= segment.start


@few
@given(trees())
def test_the_paths_of_a_block_start_at_one_position(context: Context) -> None:
    prefix = (Text((1, 2, 3)),)
    whole = (*prefix, Block((context, context)))
    inside = positions(whole)[3:]
    assert inside[: len(inside) // 2] == inside[len(inside) // 2 :]
    assert inside[:1] in ([], [3])
