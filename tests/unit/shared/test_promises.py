"""PASTA: a promise forks one path, the parent writes on beside it, a sync closes them all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock, encode
from multiverse_shared.errors import InvalidDialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular
from multiverse_shared.promises import attributes, promised_tokens
from multiverse_shared.reader import read
from multiverse_shared.reading import Incomplete, Reading
from multiverse_shared.tree import Block, Context, Text, linearise

P = '<promise topic="roots" tokens="20"/>'
Q = "<promise tokens=10/>"


def grammar_of(name: str) -> Grammar:
    dialect = load_dialect(name)
    return Grammar.bind(dialect, CharacterTokenizer(dialect))


PASTA = grammar_of("pasta")
RESERVE = grammar_of("pasta-reserve")


def reading(text: str, grammar: Grammar = PASTA, **limits: int) -> Reading:
    return read(grammar.tokenizer.encode_trusted(text), grammar, Limits(**limits))


def told(context: Context) -> list[Any]:
    return [
        PASTA.tokenizer.decode(item.ids)
        if isinstance(item, Text)
        else [told(path) for path in item.paths]
        for item in context
    ]


def test_the_parent_goes_on_as_the_last_path() -> None:
    found = reading(f"a{P}<async>x</async>b<sync/>c")
    assert told(found.context) == [f"a{P}", [["<async>x</async>"], ["b<sync/>"]], "c"]
    assert not found.irregular


def test_a_second_promise_forks_inside_the_last_path_and_one_sync_closes_both() -> None:
    found = reading(f"a{P}<async>x</async>b{Q}<async>y</async>c<sync/>d")
    inner = [["<async>y</async>"], ["c<sync/>"]]
    assert told(found.context) == [f"a{P}", [["<async>x</async>"], [f"b{Q}", inner]], "d"]
    assert not found.irregular


def test_promises_may_follow_a_sync_and_stand_in_a_promised_path() -> None:
    found = reading(
        f"{P}<async>x{Q}<async>y</async>z<sync/>w</async>b<sync/>{P}<async></async><sync/>"
    )
    first = [[f"<async>x{Q}", [["<async>y</async>"], ["z<sync/>"]], "w</async>"], ["b<sync/>"]]
    assert told(found.context) == [P, first, P, [["<async></async>"], ["<sync/>"]]]
    assert not found.irregular


def test_the_parent_and_the_path_do_not_see_each_other_before_the_sync() -> None:
    context = reading(f"a{P}<async>x</async>b<sync/>c").context
    size = len(linearise(context))
    seen = {}
    for segment in visibility(context):
        spans = [(at, stop) for at, stop in segment.visible if stop > at]
        seen[segment.start] = spans
    fork = len(linearise(context[:1]))
    parent = fork + len(linearise(context[1].paths[0]))  # type: ignore[union-attr]
    assert seen[fork] == [(0, fork)]
    assert seen[parent] == [(0, fork)]
    assert seen[size - 1] == [(0, size - 1)]


def test_under_stitch_both_start_behind_the_promise() -> None:
    context = reading(f"a{P}<async>xyz</async>b<sync/>c").context
    places = positions(context)
    at = len(linearise(context[:1]))
    assert places[at : at + 5] == [at, at + 1, at + 2, at + 3, at + 4]
    assert places[at + 5] == at
    assert places[-1] == at + 5  # one after the largest position


@pytest.mark.parametrize(("tokens", "reserved"), [(20, 20), (4, 10), (15, 20), (34, 30), (0, 10)])
def test_under_reserve_the_parent_skips_what_was_promised(tokens: int, reserved: int) -> None:
    promise = f"<promise tokens={tokens}/>"
    context = reading(f"a{promise}<async>xyz</async>b<sync/>c", RESERVE).context
    at = next_position(context[:1])
    block = context[1]
    assert isinstance(block, Block)
    assert block.paths[1][0].start == at + reserved  # type: ignore[union-attr]
    places = positions(context)
    assert places[at : at + 5] == list(range(at, at + 5))
    assert places[at + 5 : at + 7] == [at + reserved, at + reserved + 1]
    assert places[-1] == at + reserved + 2


def test_a_path_longer_than_promised_overlaps_and_all_goes_on_behind_it() -> None:
    text = f"a{Q}<async>{'x' * 30}</async>b<sync/>c"
    context = reading(text, RESERVE).context
    at = next_position(context[:1])
    assert positions(context)[-1] == at + 32


def test_nested_reservations_add_up() -> None:
    context = reading(f"{Q}<async>x</async>b{Q}<async>y</async>c<sync/>", RESERVE).context
    at = next_position(context[:1])
    outer = context[1]
    assert isinstance(outer, Block)
    last = outer.paths[1]
    inner = last[1]
    assert isinstance(inner, Block)
    promise = len(last[0].ids)  # type: ignore[union-attr]
    assert last[0].start == at + 10  # type: ignore[union-attr]
    assert inner.paths[1][0].start == at + 10 + promise + 10  # type: ignore[union-attr]


def test_positions_count_from_where_the_answer_starts() -> None:
    ids = RESERVE.tokenizer.encode_trusted(f"a{Q}<async>x</async>b<sync/>")
    block = read(ids, RESERVE, Limits(), start=100).context[1]
    assert isinstance(block, Block)
    assert block.paths[1][0].start == 100 + len(ids[: ids.index(RESERVE.tags["path_open"][0])]) + 10  # type: ignore[union-attr,index]


@pytest.mark.parametrize(
    ("text", "irregular"),
    [
        ("a<sync/>b", Irregular.STRAY_TAG),
        ("<async>x</async>", Irregular.STRAY_TAG),
        (f"{P}b<async>x</async>", Irregular.STRAY_TAG),
        (f"{P}b<async>x</async>", Incomplete.PROMISE_WITHOUT_PATH),
        (f"a{P}", Incomplete.PROMISE_WITHOUT_PATH),
        (f"{P}<async>x", Incomplete.PATH_WITHOUT_END),
        (f"{P}<async>x</async>y", Incomplete.OPEN_BLOCK),
        (f"{P}<async>x{Q}<async>y</async>z</async>b<sync/>", Incomplete.PATH_WITHOUT_SYNC),
        ("<promise <promise/>", Irregular.STRAY_TAG),
    ],
)
def test_what_breaks_the_grammar_is_text_and_is_counted(text: str, irregular: str) -> None:
    found = reading(text)
    assert found.irregular[irregular] >= 1
    assert PASTA.tokenizer.decode(linearise(found.context)) == text


def test_a_slash_and_a_bracket_outside_a_promise_are_plain_text() -> None:
    assert not reading("a <br/> b").irregular


def test_promises_beyond_the_limits_are_text() -> None:
    one = f"{Q}<async>x</async>"
    assert reading(one * 3 + "<sync/>", max_blocks=2).irregular[Irregular.STRAY_TAG] == 3
    assert reading(one * 3 + "<sync/>", max_paths=3).irregular[Irregular.STRAY_TAG] == 3
    nested = f"{Q}<async>{Q}<async>x</async><sync/></async><sync/>"
    assert reading(nested, max_depth=1).irregular[Irregular.STRAY_TAG] >= 1
    assert not reading(nested, max_depth=2).irregular


def test_attributes_are_read_as_text() -> None:
    assert attributes(" topic=\"a b\" tokens='30' size=4") == {
        "topic": "a b",
        "tokens": "30",
        "size": "4",
    }
    assert attributes("nothing = ") == {}
    assert promised_tokens("tokens=-20") == promised_tokens("tokens=x") == 10
    assert promised_tokens(f"tokens={'9' * 400}") == 10


def test_plans_can_not_be_encoded_in_a_dialect_without_them() -> None:
    with pytest.raises(InvalidDialect, match="no plans"):
        encode((TextBlock(("a",), (("x",),), ()),), PASTA)


PIECES = st.lists(
    st.sampled_from([P, Q, "<promise", "/>", "<async>", "</async>", "<sync/>", "a", "tokens=40"]),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.sampled_from([PASTA, RESERVE]))
def test_whatever_is_read_comes_back_and_has_places(pieces: list[str], grammar: Grammar) -> None:
    text = "".join(pieces)
    context = reading(text, grammar).context
    assert grammar.tokenizer.decode(linearise(context)) == text
    assert len(positions(context)) == len(linearise(context))
    assert next_position(context) > max(positions(context), default=-1)
