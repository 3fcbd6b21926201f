"""What pins KV, and what ends the pin."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from multiverse_shared.errors import NotFound
from multiverse_shared.tree import Block
from tests.integration.worker.engines import OpenEngine, any_engine
from tests.unit.worker.client import AnyEngine, Client, assert_nothing_held, leases_of, text

pytestmark = any_engine

PROMPT = text(*range(1, 41))
PATHS = (text(50, 51), text(60, 61, 62))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(open_engine: OpenEngine, clock: Clock) -> AnyEngine:
    return open_engine(clock=clock)


def leases(engine: AnyEngine) -> set[str]:
    return {lease.id for lease in leases_of(engine)}


def is_pinned(client: Client, key: bytes) -> bool:
    """Whether a branch may go on from `key`."""
    outcome = client.run(text(9), base_key=key, request="probe")
    client.release(outcome.finish.lease)
    return not isinstance(outcome.finish.error, NotFound)


def test_a_join_consumes_the_leases_of_its_paths(client: Client) -> None:
    engine = client.engine
    ends = [client.run(PROMPT, path).finish for path in PATHS]
    assert leases(engine) == {end.lease for end in ends}
    block = Block(tuple((path,) for path in PATHS))
    consumed = tuple(end.lease for end in ends)
    joined = client.run(PROMPT, block, text(70), max_tokens=2, consumes=consumed).finish
    assert leases(engine) == {joined.lease}


def test_leases_are_consumed_as_soon_as_the_context_is_held(client: Client) -> None:
    end = client.run(PROMPT).finish
    branch = client.start(PROMPT, text(7), max_tokens=20, consumes=(end.lease,))
    while not client.said(branch):
        client.step()
    assert leases(client.engine) == set()
    assert branch not in client.outcomes


def test_consuming_what_is_not_there_is_harmless(client: Client) -> None:
    end = client.run(PROMPT, consumes=("1-77", "nonsense")).finish
    assert leases(client.engine) == {end.lease}


def test_a_released_lease_leaves_its_kv_as_ordinary_cache(client: Client) -> None:
    end = client.run(PROMPT).finish
    client.release(end.lease)
    client.release(end.lease)
    assert leases(client.engine) == set()
    assert not is_pinned(client, end.key)
    assert client.run(PROMPT).finish.reused_tokens == 40


def test_a_lease_ends_after_60_s_without_a_branch_of_its_request(
    client: Client, clock: Clock
) -> None:
    end = client.run(PROMPT, request="quiet").finish
    clock.now = 59.9
    client.engine.tick()
    assert is_pinned(client, end.key)
    clock.now = 60.0
    client.engine.tick()
    assert leases(client.engine) == set()
    assert not is_pinned(client, end.key)


def test_a_running_branch_keeps_the_leases_of_its_request(client: Client, clock: Clock) -> None:
    end = client.run(PROMPT, request="long").finish
    branch = client.start(text(1, 2), request="long", max_tokens=200)
    for _ in range(10):
        clock.now += 30
        client.step()
    assert end.lease in leases(client.engine)
    client.outcome(branch)


def test_leases_of_a_lost_stream_end_after_5_s(client: Client, clock: Clock) -> None:
    engine = client.engine
    client.run(PROMPT)
    kept = Client(engine, stream=2).run(PROMPT).finish
    engine.lose_stream(1)
    clock.now = 4.9
    engine.tick()
    assert len(leases(engine)) == 2
    clock.now = 5.0
    engine.tick()
    assert leases(engine) == {kept.lease}


def test_ended_leases_leave_no_pin_behind(client: Client, clock: Clock) -> None:
    engine = client.engine
    for path in PATHS:
        client.run(PROMPT, path)
    engine.lose_stream(1)
    clock.now = 100
    engine.tick()
    engine.cache.drop_idle()
    assert_nothing_held(engine)


def test_the_load_counts_leases_and_cells(client: Client) -> None:
    end = client.run(PROMPT).finish
    load = client.engine.load()
    assert (load.leases, load.running, load.waiting) == (1, 0, 0)
    assert (load.kv_cells_free, load.kv_cells) == (1024 - 40, 1024)
    client.release(end.lease)
    assert client.engine.load().leases == 0
