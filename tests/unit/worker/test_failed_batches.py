"""What happens when the library can't compute a batch."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from multiverse_shared.errors import WorkerUnavailable
from multiverse_shared.tree import Block
from multiverse_worker.contract import FinishReason
from multiverse_worker.engines.llamacpp.library import DecodeError
from tests.unit.worker.answers import answers
from tests.unit.worker.client import Client, assert_nothing_held, text
from tests.unit.worker.symbolic import NO_SLOT, expected_greedy, library_of, symbolic_engine

PROMPT = text(*range(1, 11))


@pytest.fixture
def client() -> Iterator[Client]:
    with symbolic_engine(batch_tokens=16) as engine:
        yield Client(engine)


def fail(client: Client, *codes: int) -> None:
    """The next batches fail with these codes."""
    library_of(client.engine).failures.extend(codes)


def assert_clean(client: Client) -> None:
    client.settle()
    client.engine.drop_cached()
    assert_nothing_held(client.engine)
    assert library_of(client.engine).used == 0


def test_a_batch_without_a_slot_is_tried_again_with_the_same_tokens(client: Client) -> None:
    for token in range(4):
        client.release(client.run(text(40 + token, 41, 42)).finish.lease)
    branch = client.start(PROMPT, max_tokens=4)
    for _ in range(4):
        fail(client, NO_SLOT)
        client.step()
    assert client.outcome(branch).ids == expected_greedy((PROMPT,), 4)
    assert_clean(client)


def test_idle_contexts_are_evicted_for_a_batch_without_a_slot(client: Client) -> None:
    client.release(client.run(text(40, 41, 42)).finish.lease)
    fail(client, NO_SLOT)
    client.run(PROMPT)
    assert client.engine.load().totals.evictions == 1


def test_younger_branches_make_room_for_a_batch_without_a_slot(client: Client) -> None:
    older = client.start(PROMPT, request="older", max_tokens=4)
    younger = client.start(text(5, 6), request="younger", max_tokens=4)
    fail(client, NO_SLOT)
    assert client.outcome(older).ids == expected_greedy((PROMPT,), 4)
    assert client.outcome(younger).ids == expected_greedy((text(5, 6),), 4)
    assert client.engine.load().totals.preemptions == 1


def test_a_branch_that_never_gets_a_slot_fails_when_it_is_alone(client: Client) -> None:
    fail(client, *[NO_SLOT] * 3)
    assert client.run(PROMPT, max_tokens=4).finish.reason is FinishReason.FAILED
    library_of(client.engine).failures.clear()
    assert_clean(client)


@pytest.mark.parametrize("code", [-1, 2, -2, -3])
def test_a_failed_batch_ends_its_branches_and_the_others_go_on(client: Client, code: int) -> None:
    before = client.run(PROMPT).finish
    first = client.start(PROMPT, text(20), request="a", max_tokens=3)
    second = client.start(text(30, 31), request="b", max_tokens=3)
    fail(client, code)
    client.step()
    for branch in (first, second):
        error = client.outcomes[branch].finish.error
        assert isinstance(error, WorkerUnavailable)
        assert str(code) in error.message
    again = client.run(PROMPT, text(20), max_tokens=3)
    assert again.ids == expected_greedy((PROMPT, text(20)), 3)
    assert before.lease in {lease.id for lease in client.engine.roster.leases}
    assert client.engine.load().totals.failed_steps == 1
    assert_clean(client)


def test_a_branch_outside_the_failed_batch_goes_on() -> None:
    with symbolic_engine(batch_tokens=4, sequences=4) as engine:
        client = Client(engine)
        loading = client.start(text(*range(8)), request="old", max_tokens=2)
        waiting = client.start(text(9, 8), request="young", max_tokens=2)
        fail(client, -3)
        client.step()
        assert client.outcomes[loading].finish.reason is FinishReason.FAILED
        assert client.outcome(waiting).ids == expected_greedy((text(9, 8),), 2)


def test_a_failure_inside_a_path_that_is_computed_again_leaves_nothing(client: Client) -> None:
    context = (PROMPT, Block(((text(*range(30)),), (text(30),))), text(7))
    branch = client.start(*context)
    client.step()
    fail(client, -3)
    client.step()
    assert client.outcomes[branch].finish.reason is FinishReason.FAILED
    assert_clean(client)


def test_a_second_failure_in_a_row_is_raised(client: Client) -> None:
    fail(client, -3, -3)
    client.start(PROMPT, request="a", max_tokens=3)
    client.step()
    client.start(PROMPT, request="b", max_tokens=3)
    with pytest.raises(DecodeError, match="-3"):
        client.step()


def test_failures_with_a_success_between_them_are_survived(client: Client) -> None:
    for number in range(4):
        fail(client, -3)
        assert client.run(text(number)).finish.reason is FinishReason.FAILED
        assert client.run(text(number)).finish.reason is FinishReason.LENGTH


class Unlucky(Client):
    """Finds no slot now and then, when somebody could give way."""

    rng = random.Random(4)

    def step(self) -> None:
        if len(self.engine.roster.admitted) > 1 and self.rng.random() < 0.4:
            fail(self, NO_SLOT)
        super().step()
        library_of(self.engine).failures.clear()


def test_forking_requests_give_the_same_answers_though_slots_are_missing_at_random() -> None:
    said = []
    for kind in (Client, Unlucky):
        with symbolic_engine(batch_tokens=16, sequences=16) as engine:
            client = kind(engine)
            said.append(client.drive(*(answer.run() for answer in answers(client, 4))))
    assert engine.load().totals.preemptions > 5
    assert said[0] == said[1]
