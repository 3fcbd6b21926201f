"""Requests that fight for cells and sequences all end, with the tokens of a quiet run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multiverse_shared.errors import RequestTooLarge
from multiverse_shared.tree import Block, Context
from multiverse_worker.contract import FinishReason, Ids, Sampling
from tests.unit.worker.answers import answers
from tests.unit.worker.client import Client, assert_nothing_held, text
from tests.unit.worker.symbolic import (
    SymbolicLibrary,
    expected_greedy,
    library_of,
    symbolic_engine,
)

GREEDY = Sampling()
LONG_PROMPT = text(*range(1, 31))
ONE_PATH: Context = (LONG_PROMPT, Block(((text(31, 32),),)), text(33))


def run_answers(
    number: int, *, limit: int = 4000, sampling: Sampling = GREEDY, **options: Any
) -> list[list[Ids]]:
    """What `number` requests at once say; nothing may be left behind."""
    with symbolic_engine(**options) as engine:
        client = Client(engine, limit=limit)
        wanted = answers(client, number, sampling=sampling)
        said = client.drive(*(answer.run() for answer in wanted))
        engine.drop_cached()
        assert_nothing_held(engine)
    return said


@pytest.fixture(scope="module")
def quiet() -> list[list[Ids]]:
    """Each request alone, in an engine of its own."""
    said = []
    for number in range(6):
        with symbolic_engine() as engine:
            client = Client(engine)
            said += client.drive(answers(client, 6)[number].run())
    return said


def largest_tree() -> int:
    with symbolic_engine() as engine:
        return max(answer.tokens for answer in answers(Client(engine), 6))


def test_requests_side_by_side_say_what_each_says_alone(quiet: list[list[Ids]]) -> None:
    assert run_answers(6) == quiet


def test_six_requests_finish_in_a_pool_little_larger_than_one(quiet: list[list[Ids]]) -> None:
    assert run_answers(6, kv_cells=int(1.3 * largest_tree()), batch_tokens=16) == quiet


def test_six_requests_finish_in_a_pool_just_as_large_as_one(quiet: list[list[Ids]]) -> None:
    assert run_answers(6, kv_cells=largest_tree(), batch_tokens=16) == quiet


@pytest.mark.parametrize("sequences", [8, 5, 4, 3, 2])
def test_six_requests_finish_with_few_sequences(quiet: list[list[Ids]], sequences: int) -> None:
    assert run_answers(6, sequences=sequences) == quiet


def test_six_requests_finish_with_few_sequences_and_few_cells(quiet: list[list[Ids]]) -> None:
    cells = int(1.3 * largest_tree())
    assert run_answers(6, sequences=5, kv_cells=cells, batch_tokens=16) == quiet


def test_pressure_does_not_multiply_the_work() -> None:
    computed = []
    for cells in (4096, int(1.3 * largest_tree())):
        with symbolic_engine(kv_cells=cells, batch_tokens=16) as engine:
            client = Client(engine)
            client.drive(*(answer.run() for answer in answers(client, 6)))
            computed.append(library_of(engine).computed)
    assert computed[1] < 4 * computed[0]


def test_contexts_that_each_need_the_last_sequence_are_served_in_turn() -> None:
    with symbolic_engine(sequences=2) as engine:
        client = Client(engine, limit=200)
        branches = [client.start(*ONE_PATH, request=f"r{n}", max_tokens=3) for n in range(3)]
        said = [client.outcome(branch).ids for branch in branches]
    assert said == [expected_greedy(ONE_PATH, 3)] * 3


def test_taking_a_sequence_from_a_branch_of_the_same_batch_is_survived() -> None:
    with symbolic_engine(sequences=2, batch_tokens=64) as engine:
        client = Client(engine, limit=200)
        older = client.start(*ONE_PATH, request="older", max_tokens=2)
        younger = client.start(LONG_PROMPT, request="younger", max_tokens=2)
        assert client.outcome(older).ids == expected_greedy(ONE_PATH, 2)
        assert client.outcome(younger).ids == expected_greedy((LONG_PROMPT,), 2)


def test_a_context_too_deep_for_the_sequences_is_refused_at_once() -> None:
    nested = (text(1), Block(((text(2), Block(((text(3), Block(((text(4),),))),))),)), text(5))
    with symbolic_engine(sequences=3) as engine:
        client = Client(engine, limit=50)
        branch = client.start(*nested)
        client.step()
        error = client.outcomes[branch].finish.error
        assert isinstance(error, RequestTooLarge)
        assert (error.field, "sequences" in error.message) == ("context", True)
        assert library_of(engine).computed == 0
    with symbolic_engine(sequences=4) as engine:
        assert Client(engine).run(*nested).finish.lease


def test_leases_that_an_older_request_leaves_lying_do_not_fail_a_younger_one() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine, limit=200)
        client.run(text(*[3] * 200), request="older")
        outcome = client.run(text(*[4] * 200), request="younger", max_tokens=2)
        assert outcome.finish.reason is FinishReason.LENGTH, outcome.finish


def test_leases_that_an_older_request_leaves_lying_do_not_stop_a_younger_one() -> None:
    """The same with sequences: both are held by leases that nobody will consume."""
    with symbolic_engine(sequences=2) as engine:
        client = Client(engine, limit=200)
        for token in (1, 2):
            client.run(text(token), request="older")
        assert client.run(text(3), request="younger").finish.reason is FinishReason.LENGTH


def test_the_leases_of_the_youngest_request_go_first() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine)
        old = client.run(text(*[1] * 80), request="old").finish
        middle = client.run(text(*[2] * 80), request="middle").finish
        young = client.run(text(*[3] * 80), request="young").finish
        client.run(text(*[4] * 60), request="old")
        held = {lease.id for lease in engine.roster.leases}
        assert {old.lease, middle.lease} <= held
        assert young.lease not in held


def test_leases_of_a_lost_stream_go_before_those_of_younger_requests() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client, other = Client(engine), Client(engine, stream=2)
        other.run(text(*[1] * 80), request="old")
        client.run(text(5), request="middle")
        young = client.run(text(*[3] * 80), request="young").finish
        engine.lose_stream(2)
        client.run(text(*[4] * 120), request="middle")
        assert young.lease in {lease.id for lease in engine.roster.leases}
        assert engine.load().totals.revocations == 1


def test_two_routers_may_use_one_name_for_their_requests() -> None:
    """The later one is younger, and its leases go first."""
    with symbolic_engine(kv_cells=256) as engine:
        client, other = Client(engine), Client(engine, stream=2)
        old = client.run(text(*[1] * 80), request="same").finish
        young = other.run(text(*[2] * 80), request="same").finish
        client.run(text(*[3] * 120), request="same")
        held = {lease.id for lease in engine.roster.leases}
        assert old.lease in held
        assert young.lease not in held


def test_a_stream_can_neither_release_nor_consume_the_leases_of_another_one() -> None:
    with symbolic_engine() as engine:
        client, other = Client(engine), Client(engine, stream=2)
        lease = client.run(text(1, 2)).finish.lease
        other.release(lease)
        other.run(text(1, 2), consumes=(lease,))
        assert lease in {lease.id for lease in engine.roster.leases}


def test_the_oldest_request_is_not_slowed_by_younger_ones() -> None:
    steps = []
    for others in (0, 5):
        with symbolic_engine(kv_cells=64) as engine:
            client = Client(engine)
            oldest = client.start(text(*range(20)), request="oldest", max_tokens=30)
            for number in range(others):
                prompt = text(*[number] * 20)
                client.start(prompt, request=f"younger {number}", max_tokens=30)
            client.outcome(oldest)
            steps.append(client.steps)
            client.settle()
    assert steps[1] <= steps[0] + 3


def test_a_tail_that_fills_the_batch_does_not_keep_the_oldest_from_its_room() -> None:
    with symbolic_engine(kv_cells=40, batch_tokens=4) as engine:
        client = Client(engine, limit=200)
        client.run(text(1), request="older")
        younger = client.start(
            text(2, 3), request="younger", max_tokens=5, length_tail=tuple(range(20))
        )
        older = client.start(text(*range(30)), request="older", max_tokens=1)
        for branch in (older, younger):
            assert client.outcome(branch).finish.reason is FinishReason.LENGTH


def test_a_branch_that_is_put_back_says_each_token_once() -> None:
    prompt = text(*range(20))
    with symbolic_engine(kv_cells=64) as engine:
        client = Client(engine)
        client.start(text(*[1] * 20), request="older", max_tokens=40)
        younger = client.start(prompt, request="younger", max_tokens=30, length_tail=(1, 2, 3))
        outcome = client.outcome(younger)
    assert outcome.ids == expected_greedy((prompt,), 30)
    assert outcome.finish.appended == (1, 2, 3)


def test_idle_contexts_give_way_before_anything_else() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine)
        kept = client.run(text(*[1] * 100)).finish
        client.release(client.run(text(*[2] * 60)).finish.lease)
        client.run(text(*[3] * 140))
        assert kept.lease in {lease.id for lease in engine.roster.leases}


def test_idle_contexts_keep_to_a_quarter_of_the_pool() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine)
        for token in range(8):
            client.release(client.run(text(*[token] * 30)).finish.lease)
            assert 256 - engine.cache.ledger.free <= 64
        assert engine.cache.ledger.free < 256


@pytest.mark.parametrize(("passed_by", "most"), [(10, 256), (1500, 1500), (9000, 2048)])
def test_a_small_model_keeps_fewer_idle_contexts(
    monkeypatch: pytest.MonkeyPatch, passed_by: int, most: int
) -> None:
    monkeypatch.setattr(SymbolicLibrary, "cells_passed_by", passed_by)
    with symbolic_engine(kv_cells=8192) as engine:
        client = Client(engine)
        for token in range(40):
            client.release(client.run(text(*[token] * 60)).finish.lease)
        assert most - 60 < engine.load().kv_cells_idle <= most


@pytest.mark.parametrize("idle_cells", [0, 130, 3000])
def test_idle_contexts_keep_to_what_the_setting_says(idle_cells: int) -> None:
    with symbolic_engine(kv_cells=4096, idle_cells=idle_cells) as engine:
        client = Client(engine)
        for token in range(60):
            client.release(client.run(text(*[token % 40, token // 40] * 30)).finish.lease)
        assert max(0, idle_cells - 60) <= engine.load().kv_cells_idle <= idle_cells


def test_idle_contexts_keep_to_their_cap_after_a_join_too() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine)
        prompt, paths = text(*[9] * 50), (text(1, *[1] * 30), text(2, *[2] * 30))
        ends = [client.run(prompt, path).finish.lease for path in paths]
        block = Block(tuple((path,) for path in paths))
        end = client.run(prompt, block, text(3), consumes=tuple(ends)).finish
        client.release(end.lease)
        assert 256 - engine.cache.ledger.free <= 64


def test_penalties_survive_branches_that_are_put_back_and_computed_again() -> None:
    """What was sampled before, and the paths of a join, count as in a quiet run."""
    sampling = Sampling(1.0, 0.9, seed=3, frequency_penalty=0.4, repetition_penalty=1.3)
    quiet = run_answers(6, sampling=sampling)
    cells = int(1.3 * largest_tree())
    assert run_answers(6, sampling=sampling, sequences=5, kv_cells=cells, batch_tokens=16) == quiet
    assert run_answers(6, sampling=replace(sampling, frequency_penalty=0.0)) != quiet


def test_idle_contexts_keep_to_their_cap_when_what_shared_their_cells_is_forgotten() -> None:
    with symbolic_engine(kv_cells=256) as engine:
        client = Client(engine)
        prompt = text(*[1] * 60)
        client.release(client.run(prompt).finish.lease)
        longer = client.run(prompt, text(2)).finish
        client.release(client.run(text(*[3] * 50)).finish.lease)
        assert engine.load().kv_cells_idle == 50
        client.run(text(4), consumes=(longer.lease,))
        assert engine.load().kv_cells_idle <= 64
