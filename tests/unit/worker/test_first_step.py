"""The first token of a branch takes no step more than its context does."""

from __future__ import annotations

from multiverse_shared.tree import Block, Context
from multiverse_worker.contract import Engine
from tests.unit.worker.client import Client, text
from tests.unit.worker.symbolic import expected_greedy, symbolic_engine

PROMPT = text(*range(1, 21))


def steps(engine: Engine) -> int:
    return engine.load().totals.steps


def assert_first_token_in(client: Client, engine: Engine, context: Context, wanted: int) -> None:
    """Two tokens and the step that computes the second: `wanted` steps and two more."""
    before = steps(engine)
    assert client.run(*context, max_tokens=2).ids == expected_greedy(context, 2)
    assert steps(engine) - before == wanted + 2


def test_a_short_context_and_its_first_token_are_one_step() -> None:
    with symbolic_engine() as engine:
        assert_first_token_in(Client(engine), engine, (PROMPT,), 1)
        totals = engine.load().totals
        assert (totals.prefilled_tokens, totals.decoded_tokens) == (19, 3)


def test_so_are_the_header_of_a_join_and_the_first_token_behind_it() -> None:
    paths = (text(21, 22), text(23))
    with symbolic_engine() as engine:
        client = Client(engine)
        for path in paths:
            client.run(PROMPT, path)
        joined: Context = (PROMPT, Block(tuple((path,) for path in paths)), text(31, 32, 33))
        assert_first_token_in(client, engine, joined, 1)


def test_a_context_longer_than_a_batch_takes_its_batches_and_no_step_more() -> None:
    with symbolic_engine(batch_tokens=16, sequences=8) as engine:
        assert_first_token_in(Client(engine), engine, (PROMPT,), 2)


def test_a_last_token_that_stands_alone_is_a_step_of_its_own() -> None:
    with symbolic_engine() as engine:
        client = Client(engine)
        client.run(PROMPT)
        assert_first_token_in(client, engine, (PROMPT,), 1)
