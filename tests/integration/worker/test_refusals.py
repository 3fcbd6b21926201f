"""What can't be served is refused at once, with a reason that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from multiverse_shared.effects import Stop
from multiverse_shared.errors import InvalidRequest, MultiverseError, RequestTooLarge
from multiverse_shared.tree import Block, Context
from multiverse_worker.contract import FinishReason, Sampling
from tests.integration.worker.engines import OpenEngine, any_engine
from tests.unit.worker.client import Client, assert_nothing_held, text

pytestmark = any_engine

PROMPT = text(1, 2, 3)
BLOCK = Block(((text(4),), (text(5),)))


def refusal(client: Client, *context: Any, **fields: Any) -> MultiverseError:
    """Refused in the next step, without computing anything."""
    branch = client.start(*context, **fields)
    client.step()
    finish = client.outcomes[branch].finish
    assert finish.reason is FinishReason.FAILED
    assert finish.error is not None
    assert client.engine.idle
    assert_nothing_held(client.engine)
    return finish.error


def test_an_empty_context(client: Client) -> None:
    for context in ((), (text(),), (text(), text())):
        error = refusal(client, *context)
        assert isinstance(error, InvalidRequest)
        assert (error.field, "empty" in error.message) == ("context", True)


@pytest.mark.parametrize(
    ("context", "fields"),
    [
        ((text(1, 96),), {}),
        ((text(-1),), {}),
        ((PROMPT, Block(((text(4), Block(((text(200),),))),)), text(6)), {}),
        ((PROMPT,), {"length_tail": (96,)}),
        ((PROMPT,), {"script": (96,), "max_tokens": 1}),
        ((PROMPT,), {"stops": (Stop((96,)),)}),
        ((PROMPT,), {"stops": (Stop((1,), tail=(96,)),)}),
        ((PROMPT,), {"sampling": Sampling(banned=((96,),))}),
    ],
    ids=["context", "negative", "path of a path", "tail", "script", "stop", "stop tail", "banned"],
)
def test_ids_outside_the_vocabulary(
    client: Client, context: Context, fields: dict[str, Any]
) -> None:
    error = refusal(client, *context, **fields)
    assert isinstance(error, InvalidRequest)
    assert "0 to 95" in error.message


def test_tokens_wanted_right_behind_a_block(client: Client) -> None:
    error = refusal(client, PROMPT, BLOCK, max_tokens=1)
    assert isinstance(error, InvalidRequest)
    assert "join header" in error.message


def test_a_block_may_come_last_when_no_tokens_are_wanted(client: Client) -> None:
    assert client.run(PROMPT, BLOCK).finish.reason is FinishReason.LENGTH


def test_a_dropped_stop_of_several_ids_and_a_stop_of_none(client: Client) -> None:
    for stop in (Stop((1, 2), keep=False), Stop(()), Stop((), keep=False)):
        error = refusal(client, PROMPT, stops=(stop,))
        assert isinstance(error, InvalidRequest)
        assert error.field == "stops"


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 1022},
        {"max_tokens": 1000, "length_tail": (1,) * 22},
        {"max_tokens": 1000, "stops": (Stop((1,), tail=(1,) * 22),)},
    ],
    ids=["tokens", "length tail", "stop tail"],
)
def test_more_than_the_context_can_hold(client: Client, fields: dict[str, Any]) -> None:
    error = refusal(client, PROMPT, **fields)
    assert isinstance(error, RequestTooLarge)
    assert (error.field, "1024" in error.message) == ("max_tokens", True)


def test_exactly_what_the_context_can_hold_is_taken(client: Client) -> None:
    branch = client.start(PROMPT, max_tokens=1021)
    client.step()
    assert branch not in client.outcomes
    client.engine.abort(branch)
    client.settle()


def test_a_tree_with_more_tokens_than_the_pool_though_its_positions_fit(
    open_engine: OpenEngine,
) -> None:
    client = Client(open_engine(kv_cells=256))
    wide = Block(tuple((text(*[number] * 60),) for number in range(5)))
    error = refusal(client, PROMPT, wide, text(7))
    assert isinstance(error, RequestTooLarge)
    assert "KV cells" in error.message


def test_a_whole_pool_is_filled_by_a_context_that_just_fits(open_engine: OpenEngine) -> None:
    client = Client(open_engine(kv_cells=256))
    outcome = client.run(text(*range(50)), max_tokens=206)
    assert len(outcome.ids) == 206
    assert client.engine.load().kv_cells_free == 0


def test_a_number_that_is_in_use_ends_the_branch_that_has_it(client: Client) -> None:
    """Two branches of one number could not be told apart: one failure, and nothing runs on."""
    branch = client.start(PROMPT, max_tokens=5)
    client.step()
    client.engine.start(client._starts[branch])
    client.step()
    error = client.outcomes[branch].finish.error
    assert isinstance(error, InvalidRequest)
    assert (error.field, "new number" in error.message) == ("branch", True)
    assert client.engine.idle
