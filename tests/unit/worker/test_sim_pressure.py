"""A simulator that is short of cells or slots serves all, and says what it says at leisure."""

from __future__ import annotations

from typing import Any

import pytest

from multiverse_shared.tree import Block, count
from multiverse_worker.contract import FinishReason, Ids
from tests.unit.worker.answers import answers
from tests.unit.worker.client import Client, assert_nothing_held, text
from tests.unit.worker.simulated import make_sim

LARGEST = max(answer.tokens for answer in answers(Client(make_sim()), 6))


def run_answers(number: int, **options: Any) -> tuple[list[list[Ids]], int]:
    """What `number` requests at once say, and how many tokens were computed for it."""
    engine = make_sim(**options)
    client = Client(engine)
    said = client.drive(*(answer.run() for answer in answers(client, number)))
    engine.drop_cached()
    assert_nothing_held(engine)
    return said, engine.computed


@pytest.fixture(scope="module")
def quiet() -> list[list[Ids]]:
    """Each request alone, in an engine of its own."""
    said = []
    for number in range(6):
        client = Client(make_sim())
        said += client.drive(answers(client, 6)[number].run())
    return said


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kv_cells": int(1.3 * LARGEST), "batch_tokens": 16},
        {"kv_cells": LARGEST, "batch_tokens": 16},
        {"sequences": 1},
        {"sequences": 3, "kv_cells": LARGEST, "batch_tokens": 4},
    ],
    ids=str,
)
def test_six_requests_at_once_say_what_each_says_alone(
    quiet: list[list[Ids]], options: dict[str, Any]
) -> None:
    assert run_answers(6, **options)[0] == quiet


def test_pressure_does_not_multiply_the_work() -> None:
    _, at_leisure = run_answers(6, batch_tokens=16)
    _, pressed = run_answers(6, kv_cells=int(1.3 * LARGEST), batch_tokens=16)
    assert at_leisure < pressed < 4 * at_leisure


def test_a_join_computes_nothing_but_its_header() -> None:
    engine = make_sim()
    client = Client(engine)
    plan = client.run(text(*range(1, 11)))
    paths = [text(20, 21, 22), text(20, 31), text(30)]
    fields = {"base_key": plan.finish.key, "block": plan.start.branch}
    leases = [client.run(path, **fields).finish.lease for path in paths]
    computed = engine.computed
    before = (plan.start.context[0], Block(tuple((path,) for path in paths)))
    joined = client.run(*before, text(40, 41), consumes=(plan.finish.lease, *leases))
    assert joined.finish.reused_tokens == count(before)
    assert engine.computed == computed + 2


def test_equal_contexts_share_their_cells_to_the_token() -> None:
    engine = make_sim()
    client = Client(engine)
    for last in (90, 91, 92):
        client.run(text(*range(1, 41), last % 48))
    assert engine.load().kv_cells_free == 4096 - 40 - 3
    assert engine.account().leased == 43


def test_the_account_tells_branches_leases_and_idle_cache_apart() -> None:
    engine = make_sim()
    client = Client(engine)
    client.run(text(*range(10)))
    idle = client.run(text(*range(20, 25))).finish
    engine.release(idle.lease, 1)
    client.start(text(1, 2), max_tokens=50)
    client.step()
    assert engine.account() == (4096 - 17, 2, 10, 5)


def test_what_is_idle_goes_first_and_the_oldest_of_it_before_the_rest() -> None:
    engine = make_sim(kv_cells=100)
    client = Client(engine)
    kept = client.run(text(*[1] * 40)).finish
    for token in (2, 3):
        engine.release(client.run(text(*[token] * 25)).finish.lease, 1)
    client.run(text(*[4] * 20))
    held = {lease.id for lease in engine._leases}
    assert kept.lease in held
    assert client.run(text(*[3] * 25)).finish.reused_tokens == 25
    assert client.run(text(*[2] * 25)).finish.reused_tokens == 0


def test_a_context_of_long_ago_goes_whole_before_a_later_one() -> None:
    engine = make_sim(kv_cells=60)
    client = Client(engine)
    old, later = text(*[1] * 20), text(*[3] * 20)
    for context in ((old,), (old, text(*[2] * 10)), (later,)):
        engine.release(client.run(*context).finish.lease, 1)
    client.run(text(*[4] * 40))
    assert client.run(later).finish.reused_tokens == 20


def test_the_leases_of_the_youngest_request_go_first() -> None:
    engine = make_sim(kv_cells=256)
    client = Client(engine)
    ends = {r: client.run(text(*[n] * 80), request=r).finish for n, r in enumerate("omy")}
    client.run(text(*[4] * 60), request="o")
    held = {lease.id for lease in engine._leases}
    assert {ends["o"].lease, ends["m"].lease} <= held
    assert ends["y"].lease not in held


def test_leases_that_an_older_request_leaves_lying_do_not_fail_a_younger_one() -> None:
    client = Client(make_sim(kv_cells=256), limit=200)
    client.run(text(*[3] * 200), request="older")
    outcome = client.run(text(*[4] * 200), request="younger", max_tokens=2)
    assert outcome.finish.reason is FinishReason.LENGTH


def test_the_oldest_request_is_not_slowed_by_younger_ones() -> None:
    steps = []
    for others in (0, 5):
        client = Client(make_sim(kv_cells=64))
        oldest = client.start(text(*range(20)), request="oldest", max_tokens=30)
        for number in range(others):
            client.start(text(*[number] * 20), request=f"younger {number}", max_tokens=30)
        client.outcome(oldest)
        steps.append(client.steps)
        client.settle()
    assert steps[1] <= steps[0] + 1


def test_long_prompts_never_keep_a_decoding_branch_from_its_token() -> None:
    client = Client(make_sim(batch_tokens=16))
    decoding = client.start(text(1), request="decoding", max_tokens=40)
    client.step()
    client.start(text(*[2] * 400), request="long")
    for step in range(10):
        client.step()
        assert len(client.said(decoding)) == step + 2
