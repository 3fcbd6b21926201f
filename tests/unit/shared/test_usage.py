"""What an answer costs: examples counted by hand, and bounds that always hold."""

from __future__ import annotations

from hypothesis import given

from multiverse_shared.tree import Block, Context, Text, count
from multiverse_shared.usage import Usage, critical_path, usage
from tests.unit.shared.strategies import few, trees

PROMPT = Text(tuple(range(100)))


def tokens(size: int, *, written: bool = False) -> Text:
    return Text((7,) * size, written)


def test_plain_text_is_its_own_critical_path() -> None:
    assert usage((tokens(5),)) == Usage(generated=5, written=0, critical=5)
    assert usage((tokens(5),)).parallelism == 1.0


def test_an_empty_answer_costs_nothing() -> None:
    assert usage(()) == Usage(generated=0, written=0, critical=0)
    assert usage(()).parallelism == 1.0


def test_a_block_adds_all_its_paths_but_only_its_longest_one_to_the_critical_path() -> None:
    block = Block(((tokens(4),), (tokens(10),), (tokens(6),)))
    counts = usage((tokens(3), block, tokens(2)))
    assert counts == Usage(generated=25, written=0, critical=15)
    assert counts.parallelism == 25 / 15


def test_the_longest_chain_goes_through_nested_blocks() -> None:
    nested = (tokens(2), Block(((tokens(5),), (tokens(1),))), tokens(1))  # 9 tokens, chain of 8
    counts = usage((Block((nested, (tokens(7),))), tokens(1)))
    assert counts == Usage(generated=17, written=0, critical=9)


def test_what_the_system_wrote_is_counted_apart_and_in_the_total() -> None:
    path = (tokens(3, written=True), tokens(4), tokens(1, written=True))
    counts = usage((tokens(2), Block((path, path)), tokens(1, written=True)))
    assert counts == Usage(generated=19, written=9, critical=11)


def test_history_is_not_counted() -> None:
    earlier = Block(((tokens(9),), (tokens(9, written=True),)))
    context = (PROMPT, earlier, tokens(3), Block(((tokens(1),), (tokens(1, written=True),))))
    assert usage(context, 2) == Usage(generated=5, written=1, critical=4)
    assert usage(context, 2).parallelism == 5 / 4


@few
@given(trees())
def test_costs_bound_one_another(context: Context) -> None:
    counts = usage(context)
    assert counts.critical == critical_path(context) <= counts.generated == count(context)
    assert 0 <= counts.written <= counts.generated
    assert counts.parallelism >= 1


@few
@given(trees(), trees(depth=2))
def test_costs_of_what_comes_one_after_another_add_up(first: Context, then: Context) -> None:
    whole, second = usage(first + then), usage(then)
    assert usage(first + then, len(first)) == second
    assert whole.generated == usage(first).generated + second.generated
    assert whole.written == usage(first).written + second.written
    assert whole.critical == usage(first).critical + second.critical
