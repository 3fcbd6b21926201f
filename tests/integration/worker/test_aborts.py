"""A branch may be given up at any moment, and nothing of it stays."""

from __future__ import annotations

import random

import pytest

from multiverse_shared.effects import Stop
from multiverse_shared.tree import Block, Context
from multiverse_worker.contract import BranchId, FinishReason
from tests.integration.worker.engines import OpenEngine, any_engine
from tests.unit.worker.client import AnyEngine, Client, assert_nothing_held, text

pytestmark = any_engine

# Loading takes several batches of 16: the prompt, a path, a path in a path, the header.
CONTEXT: Context = (
    text(*range(1, 41)),
    Block(
        ((text(50, 51), Block(((text(52, 53),), (text(*range(60, 85)),))), text(54)), (text(50),))
    ),
    text(*range(70, 90)),
)
STEPS_OF_A_RUN = 20


@pytest.fixture
def engine(open_engine: OpenEngine) -> AnyEngine:
    return open_engine(batch_tokens=16)


def forget_everything(client: Client) -> None:
    client.settle()
    for outcome in client.outcomes.values():
        client.release(outcome.finish.lease)
    client.engine.drop_cached()
    assert_nothing_held(client.engine)


@pytest.mark.parametrize("steps", range(STEPS_OF_A_RUN))
def test_an_abort_after_any_number_of_steps_leaves_nothing(client: Client, steps: int) -> None:
    branch = client.start(*CONTEXT, max_tokens=6, length_tail=tuple(range(20)))
    for _ in range(steps):
        client.step()
    client.engine.abort(branch)
    outcome = client.outcome(branch)
    assert outcome.finish.reason in (FinishReason.ABORTED, FinishReason.LENGTH)
    assert bool(outcome.finish.lease) == (outcome.finish.reason is FinishReason.LENGTH)
    forget_everything(client)


def test_those_steps_reach_from_the_queue_past_the_end(client: Client) -> None:
    """Guards the test above."""
    client.run(*CONTEXT, max_tokens=6, length_tail=tuple(range(20)))
    assert STEPS_OF_A_RUN / 2 < client.steps < STEPS_OF_A_RUN


def test_an_abort_in_the_tail_leaves_nothing(client: Client) -> None:
    tail = tuple(range(40))
    branch = client.start(text(1, 2), max_tokens=9, script=(3,), stops=(Stop((3,), tail=tail),))
    while not client.said(branch):
        client.step()
    client.step()
    assert branch not in client.outcomes
    client.engine.abort(branch)
    assert client.outcome(branch).finish.reason is FinishReason.ABORTED
    forget_everything(client)


def test_an_aborted_branch_says_nothing_more(client: Client) -> None:
    branch = client.start(text(1, 2), max_tokens=50)
    while not client.said(branch):
        client.step()
    client.engine.abort(branch)
    said = client.said(branch)
    assert client.outcome(branch).ids == said
    forget_everything(client)


def test_siblings_of_an_aborted_branch_go_on(client: Client) -> None:
    alone = client.run(text(1, 2, 3), max_tokens=10).ids
    first = client.start(text(1, 2, 3), max_tokens=10)
    second = client.start(text(1, 2, 3), max_tokens=10)
    client.step()
    client.engine.abort(first)
    assert client.outcome(second).ids == alone
    forget_everything(client)


def test_aborting_twice_or_what_is_unknown_is_harmless(client: Client) -> None:
    branch = client.start(text(1, 2), max_tokens=5)
    client.engine.abort(branch)
    client.engine.abort(branch)
    client.engine.abort(BranchId(9, 9))
    assert client.outcome(branch).finish.reason is FinishReason.ABORTED
    client.engine.abort(branch)
    forget_everything(client)


def test_what_an_aborted_join_would_have_consumed_can_be_released(client: Client) -> None:
    prompt = CONTEXT[0]
    ends = [client.run(prompt, text(50, number)).finish for number in (51, 52)]
    block = Block(((text(50, 51),), (text(50, 52),)))
    consumes = tuple(end.lease for end in ends)
    branch = client.start(prompt, block, text(60), max_tokens=5, consumes=consumes)
    client.engine.abort(branch)
    client.outcome(branch)
    forget_everything(client)


def test_a_refused_branch_leaves_nothing(client: Client) -> None:
    client.run(text(1, 2), max_tokens=100_000)
    client.run(text(1, 2, 4000))
    client.run()
    assert_nothing_held(client.engine)


def test_300_forks_joins_and_aborts_leave_nothing(client: Client) -> None:
    rng = random.Random(11)
    engine = client.engine
    for cycle in range(300):
        prompt = text(*(rng.randrange(4) for _ in range(rng.randint(1, 12))))
        request = f"r{cycle}"
        plan = client.run(prompt, max_tokens=rng.randint(0, 3), request=request)
        before = (prompt, text(*plan.ids))
        headers = [text(5, number % 3) for number in range(rng.randint(1, 4))]
        paths = [
            client.start(*before, header, max_tokens=rng.randint(0, 4), request=request)
            for header in headers
        ]
        for _ in range(rng.randint(0, 3)):
            client.step()
        given_up = rng.choice(paths) if rng.random() < 0.3 else None
        if given_up:
            engine.abort(given_up)
        ends = [client.outcome(path) for path in paths]
        kept = [
            (header, end) for header, end in zip(headers, ends, strict=True) if end.finish.lease
        ]
        leases = [plan.finish.lease, *(end.finish.lease for _, end in kept)]
        if kept and rng.random() < 0.8:
            block = Block(tuple((header, text(*end.ids)) for header, end in kept))
            join = client.start(
                *before, block, text(6), max_tokens=2, request=request, consumes=tuple(leases)
            )
            if rng.random() < 0.2:
                client.step()
                engine.abort(join)
            leases.append(client.outcome(join).finish.lease)
        for lease in leases:
            client.release(lease)
        if cycle % 50 == 49:
            engine.drop_cached()
            assert_nothing_held(engine)
    forget_everything(client)
