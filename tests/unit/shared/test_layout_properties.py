"""The layout of random trees equals the one that the definitions give, token by token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.tree import Block, Context, JoinRule, Text, count, normalise
from tests.unit.shared.definition import Definition, rows
from tests.unit.shared.strategies import (
    Offsets,
    closed_trees,
    few,
    ruled_trees,
    served_trees,
    trees,
)


def assert_lies_as_defined(context: Context, start: int = 0) -> None:
    defined = Definition(context, start)
    assert positions(context, start) == defined.positions
    assert next_position(context, start) == defined.next_position
    assert rows(visibility(context)) == defined.visible


@pytest.mark.parametrize("rule", JoinRule)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), start=st.integers(0, 50))
def test_every_rule_lays_out_open_and_closed_trees_as_defined(
    rule: JoinRule, data: st.DataObject, start: int
) -> None:
    assert_lies_as_defined(data.draw(ruled_trees(rule)), start)


@few
@given(data=st.data())
def test_blocks_of_different_rules_may_lie_inside_each_other(data: st.DataObject) -> None:
    inner = tuple(data.draw(closed_trees(rule, 1)) for rule in JoinRule)
    outer = Block(inner, data.draw(st.sampled_from(JoinRule)))
    assert_lies_as_defined((Text((1, 2)), outer, Text((3,))))


@pytest.mark.parametrize("offsets", [(-1, -1), (3, 2)])
@few
@given(data=st.data())
def test_positions_with_offsets_follow_from_the_definition(
    offsets: Offsets, data: st.DataObject
) -> None:
    assert_lies_as_defined(data.draw(served_trees(offsets)))


def test_an_empty_text_in_a_path_does_not_move_what_follows_the_block() -> None:
    for empty in ((), (Text(()),), (Text((), written=True), Text(()))):
        block = Block((empty,), path_offset=-1)
        assert next_position((Text((1, 2, 3)), block)) == 3


def test_an_empty_text_moves_nothing_wherever_it_says_that_it_starts() -> None:
    context = (Text((1, 2)), Text((), start=40), Text((3,)))
    assert positions(context) == positions(normalise(context)) == [0, 1, 2]
    assert next_position((Text((1, 2)), Text((), start=40))) == 2


def test_a_nested_block_at_the_end_of_a_path_reaches_only_as_far_as_its_tokens() -> None:
    inner = Block(((Text((7, 8)),),), path_offset=-1, join_offset=-1)  # at positions 2 and 3
    outer = Block(((Text((6,)), inner),), path_offset=-1, join_offset=-1)
    context = (Text((1, 2, 3)), outer)
    assert positions(context) == [0, 1, 2, 2, 2, 3]
    assert next_position(context) == 3 + 1 - 1


@pytest.mark.parametrize("rule", JoinRule)
@few
@given(data=st.data())
def test_contexts_that_a_model_cannot_tell_apart_lie_alike(
    rule: JoinRule, data: st.DataObject
) -> None:
    context = data.draw(ruled_trees(rule, 2))
    assert positions(normalise(context)) == positions(context)
    assert next_position(normalise(context)) == next_position(context)
    assert rows(visibility(normalise(context))) == rows(visibility(context))


@few
@given(trees())
def test_segments_tile_the_tokens_and_look_back_only(context: Context) -> None:
    segments = visibility(context)
    assert len(rows(segments)) == count(context)
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
