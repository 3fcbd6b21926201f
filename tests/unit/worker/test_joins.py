"""A join sees every token of every path, each once, whatever is cached or shared."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.tree import Block, Context, Item, Text, count
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from tests.conformance.trees import random_tree, with_ids
from tests.unit.worker.client import Client, Seen, assert_nothing_held, text
from tests.unit.worker.properties import examples
from tests.unit.worker.symbolic import VOCAB, expected_logits, library_of, symbolic_engine
from tests.unit.worker.walk import Walk

PROMPT = text(*range(1, 11))


@pytest.fixture
def engine() -> Iterator[LlamaCppEngine]:
    with symbolic_engine() as engine:
        yield engine


def error_of_join(engine: LlamaCppEngine, *paths: Text) -> float:
    """Run the paths one after another and join them: how far off the header's logits are."""
    client, seen = Client(engine), Seen.by(engine)
    leases = [client.run(PROMPT, path).finish.lease for path in paths]
    context = (PROMPT, Block(tuple((path,) for path in paths)), text(40))
    joined = client.run(*context, consumes=tuple(leases))
    return seen.difference(joined.start.branch, expected_logits(context))


def test_a_join_of_different_paths_is_exact(engine: LlamaCppEngine) -> None:
    assert error_of_join(engine, text(20, 21), text(30, 31, 32)) == 0


def test_paths_that_begin_with_the_same_token_each_keep_their_own(engine: LlamaCppEngine) -> None:
    assert error_of_join(engine, text(20, 21, 22), text(20, 31, 32)) == 0


def test_equal_paths_are_both_seen(engine: LlamaCppEngine) -> None:
    assert error_of_join(engine, text(20, 21), text(20, 21)) == 0


def test_a_path_that_begins_with_its_sibling_is_seen_whole(engine: LlamaCppEngine) -> None:
    assert error_of_join(engine, text(20, 21, 22), text(20, 21)) == 0


def test_paths_with_a_common_beginning_leave_nothing_behind(engine: LlamaCppEngine) -> None:
    error_of_join(engine, text(20, 21, 22), text(20, 31), text(20, 21))
    engine.drop_cached()
    assert_nothing_held(engine)


def test_equal_paths_that_come_in_one_context_are_both_computed(engine: LlamaCppEngine) -> None:
    context = (PROMPT, Block(((text(20, 21),), (text(20, 21),), (text(20),))), text(40))
    client, seen = Client(engine), Seen.by(engine)
    outcome = client.run(*context)
    assert seen.difference(outcome.start.branch, expected_logits(context)) == 0
    engine.drop_cached()
    assert_nothing_held(engine)


def test_paths_that_ran_one_after_another_are_joined_without_computing_them_again(
    engine: LlamaCppEngine,
) -> None:
    client = Client(engine)
    plan = client.run(PROMPT)
    paths = [text(20, 21, 22), text(20, 31), text(20, 32)]
    fields = {"base_key": plan.finish.key, "block": plan.start.branch}
    leases = [client.run(path, **fields).finish.lease for path in paths]
    before = (PROMPT, Block(tuple((path,) for path in paths)))
    computed = library_of(engine).computed
    joined = client.run(*before, text(40, 41), consumes=(plan.finish.lease, *leases))
    assert joined.finish.reused_tokens == count(before)
    assert library_of(engine).computed == computed + 2


def test_a_join_that_was_computed_before_is_found_again(engine: LlamaCppEngine) -> None:
    client = Client(engine)
    context = (PROMPT, Block(((text(20, 21),), (text(30),))), text(40))
    first = client.run(*context).finish
    second = client.run(*context).finish
    assert first.reused_tokens == 0
    assert second.reused_tokens == count(context)
    assert second.key == first.key


def test_a_block_may_stand_first_and_paths_may_be_empty(engine: LlamaCppEngine) -> None:
    context: Context = (Block(((text(5, 6),), (), (text(7),))), text(8))
    client, seen = Client(engine), Seen.by(engine)
    outcome = client.run(*context)
    assert seen.difference(outcome.start.branch, expected_logits(context)) == 0


@st.composite
def trees(draw: st.DrawFn, ids: st.SearchStrategy[int]) -> Context:
    """A context that begins with text; its blocks are at most three deep."""

    def items(depth: int) -> Context:
        return tuple(item(depth) for _ in range(draw(st.integers(0, 3))))

    def item(depth: int) -> Item:
        if depth == 3 or draw(st.booleans()):
            return Text(tuple(draw(st.lists(ids, min_size=1, max_size=4))))
        return Block(tuple(items(depth + 1) for _ in range(draw(st.integers(1, 3)))))

    return (text(1), *items(0))


def largest_error(client: Client, walks: Sequence[Walk], all_trees: Sequence[Context]) -> float:
    """Walk the trees at once; every branch is compared on its own whole context."""
    seen = Seen.by(client.engine)
    client.drive(*(walk.run(tree) for walk, tree in zip(walks, all_trees, strict=True)))
    return max(
        seen.difference(branch, expected_logits(context))
        for walk in walks
        for branch, context in walk.contexts.items()
        if branch in seen.rows
    )


def check_exact(all_trees: Sequence[Context], seed: int) -> None:
    with symbolic_engine(batch_tokens=16) as engine:
        client = Client(engine)
        walks = [
            Walk(client, f"r{number}", random.Random(seed + number))
            for number in range(len(all_trees))
        ]
        assert largest_error(client, walks, all_trees) == 0
        engine.drop_cached()
        assert_nothing_held(engine)


@examples(50)
@given(trees(st.integers(0, VOCAB - 1)), st.integers(0, 99))
def test_any_tree_is_exact(tree: Context, seed: int) -> None:
    check_exact([tree], seed)


@examples(50)
@given(trees(st.integers(0, 1)), st.integers(0, 99))
def test_any_tree_whose_siblings_share_beginnings_is_exact(tree: Context, seed: int) -> None:
    check_exact([tree], seed)


def test_many_random_trees_at_once_are_exact() -> None:
    rng = random.Random(5)
    shapes = [random_tree(rng, 60) for _ in range(10)]
    check_exact([with_ids(s, [rng.randrange(VOCAB) for _ in range(count(s))]) for s in shapes], 7)
