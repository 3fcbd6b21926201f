"""Who is let in, and how a batch is shared: oldest first, and nobody starves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from multiverse_shared.tree import Text
from multiverse_worker.contract import BranchId
from multiverse_worker.engines.llamacpp.admission import MARGIN
from tests.unit.worker.client import Client, text
from tests.unit.worker.symbolic import expected_greedy, symbolic_engine

BATCH = 8


@pytest.fixture
def client() -> Iterator[Client]:
    with symbolic_engine(batch_tokens=BATCH, sequences=4 * BATCH) as engine:
        yield Client(engine)


def prompt(number: int, size: int) -> Text:
    return Text(tuple((number + at * (number + 1)) % 48 for at in range(size)))


def decoding(client: Client, number: int) -> list[BranchId]:
    """So many requests that decode."""
    branches = [client.start(prompt(n, 2), request=f"r{n}", max_tokens=400) for n in range(number)]
    while not all(client.said(branch) for branch in branches):
        client.step()
    return branches


def said(client: Client, branches: list[BranchId]) -> list[int]:
    return [len(client.said(branch)) for branch in branches]


def test_loading_goes_on_though_older_decoding_branches_nearly_fill_the_batch(
    client: Client,
) -> None:
    older = decoding(client, BATCH - 1)
    loading = client.start(prompt(9, 40), request="young", max_tokens=1)
    before = said(client, older)
    client.outcome(loading)
    steps = client.steps
    assert steps <= 45 + 20
    assert min(after - b for after, b in zip(said(client, older), before, strict=True)) >= 40


def test_an_older_branch_that_loads_has_its_share_of_a_batch_full_of_younger_tokens(
    client: Client,
) -> None:
    first = client.start(text(1), request="old", max_tokens=1)
    client.outcome(first)
    decoding(client, BATCH)
    loading = client.start(prompt(9, 40), request="old", max_tokens=1)
    begun = client.steps
    client.outcome(loading)
    assert client.steps - begun <= 40 / (BATCH // 4) + 3


def test_decoding_goes_on_while_a_long_context_is_loaded(client: Client) -> None:
    older = decoding(client, 2)
    client.start(prompt(9, 200), request="young", max_tokens=1)
    for _ in range(10):
        before = said(client, older)
        client.step()
        assert said(client, older) == [count + 1 for count in before]


def test_decoding_goes_on_while_an_older_request_loads(client: Client) -> None:
    client.outcome(client.start(text(1), request="old", max_tokens=1))
    younger = decoding(client, 4)
    client.start(prompt(9, 200), request="old", max_tokens=1)
    for _ in range(10):
        before = said(client, younger)
        client.step()
        assert said(client, younger) == [count + 1 for count in before]


def test_a_context_is_not_let_in_where_others_will_soon_need_the_room() -> None:
    with symbolic_engine(kv_cells=100, batch_tokens=64) as engine:
        client = Client(engine)
        client.start(prompt(1, 20), request="older", max_tokens=70)
        younger = client.start(prompt(2, 60), request="younger", max_tokens=5)
        client.step()
        assert engine.load().waiting == 1
        assert client.outcome(younger).ids == expected_greedy((prompt(2, 60),), 5)
        assert engine.load().totals.preemptions == 0


def test_a_context_is_let_in_at_once_where_there_is_room() -> None:
    with symbolic_engine(kv_cells=20 + 40 + 3 * MARGIN, batch_tokens=64) as engine:
        client = Client(engine)
        client.start(prompt(1, 20), request="older", max_tokens=70)
        client.start(prompt(2, 40), request="younger", max_tokens=5)
        client.step()
        assert engine.load().running == 2


def test_those_that_wait_are_let_in_in_their_order() -> None:
    with symbolic_engine(kv_cells=100, batch_tokens=64) as engine:
        client = Client(engine)
        client.start(prompt(1, 60), request="running", max_tokens=20)
        large = client.start(prompt(2, 60), request="large", max_tokens=2)
        small = client.start(prompt(3, 2), request="small", max_tokens=2)
        client.step()
        assert engine.load().running == 1
        while not client.said(large):
            assert not client.said(small)
            client.step()
        client.outcome(small)


def test_a_branch_put_back_does_not_come_and_go() -> None:
    """Two long answers in a pool of one and a half: the younger is put back a few times only."""
    with symbolic_engine(kv_cells=300, batch_tokens=32) as engine:
        client = Client(engine)
        branches = [client.start(prompt(n, 10), request=f"r{n}", max_tokens=190) for n in range(2)]
        for number, branch in enumerate(branches):
            assert client.outcome(branch).ids == expected_greedy((prompt(number, 10),), 190)
        totals = engine.load().totals
    assert 1 <= totals.preemptions <= 3
    assert totals.prefilled_tokens < 2 * 200


def test_tokens_computed_are_counted_for_loading_and_for_decoding(client: Client) -> None:
    client.run(prompt(1, 21), max_tokens=5, length_tail=(1, 2))
    totals = client.engine.load().totals
    assert (totals.prefilled_tokens, totals.decoded_tokens) == (20, 7 + 1)
    client.run(prompt(1, 21), max_tokens=1)
    assert client.engine.load().totals.reused_tokens == 20
