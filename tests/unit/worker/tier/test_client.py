"""Each name is fetched once and told once, in time, whatever the backend does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from multiverse_worker.tier.block import BlockForm
from multiverse_worker.tier.client import (
    GROUP,
    GROUPS_AT_ONCE,
    Answer,
    ClientOptions,
    TierClient,
)
from multiverse_worker.tier.counts import Cause, TierCounts
from multiverse_worker.tier.health import FAILURES, FIRST_PAUSE_S, LAST_PAUSE_S, Health
from multiverse_worker.tier.pieces import Name
from tests.unit.worker.tier.memory_backend import MemoryBackend

NAME = b"a" * 32
SOON = ClientOptions(timeout_s=0.05)


def name_of(number: int) -> Name:
    return number.to_bytes(32, "little")


@dataclass
class Told:
    """What became of each name."""

    answers: dict[Name, list[Answer]] = field(default_factory=dict)

    def __call__(self, name: Name, answer: Answer) -> None:
        self.answers.setdefault(name, []).append(answer)

    def only(self) -> list[Answer]:
        """One answer each, in the order of the names."""
        assert all(len(answers) == 1 for answers in self.answers.values())
        return [self.answers[name][0] for name in sorted(self.answers)]


class Rig:
    """A client over a backend in memory, and a clock that a test turns."""

    def __init__(self, options: ClientOptions = ClientOptions()) -> None:  # noqa: B008
        self.backend = MemoryBackend()
        self.counts = TierCounts()
        self.now = 0.0
        self.client = TierClient(self.backend, BlockForm(), options, self.counts, lambda: self.now)

    async def fetch(self, *names: Name) -> list[Answer]:
        told = Told()
        await self.client.fetch(names, told)
        return told.only()

    async def stored(self, names: Sequence[Name]) -> None:
        for name in names:
            assert await self.client.put(name, name * 4)


async def test_what_was_put_is_fetched() -> None:
    rig = Rig()
    await rig.stored([NAME])
    assert await rig.fetch(NAME) == [NAME * 4]
    assert rig.counts.stored_blocks == 1
    assert rig.counts.fetched_bytes == rig.counts.stored_bytes > 4 * len(NAME)


async def test_what_is_not_there_is_a_miss() -> None:
    assert await Rig().fetch(NAME) == [Cause.MISS]


async def test_many_names_travel_in_few_round_trips_several_at_a_time() -> None:
    rig = Rig()
    names = [name_of(number) for number in range(10 * GROUP)]
    await rig.stored(names)
    assert await rig.fetch(*names) == [name * 4 for name in names]
    assert len(rig.backend.asked) == 10
    assert rig.backend.most_at_once == GROUPS_AT_ONCE


async def test_a_block_is_told_before_slower_groups_arrive() -> None:
    rig = Rig()
    names = [name_of(number) for number in range(GROUP * (GROUPS_AT_ONCE + 1))]
    await rig.stored(names)
    first = asyncio.Event()
    told = Told()

    def tell(name: Name, answer: Answer) -> None:
        told(name, answer)
        rig.backend.gate.clear()  # nothing more is answered from now on
        first.set()

    fetch = asyncio.create_task(rig.client.fetch(names, tell))
    await first.wait()
    assert 1 <= len(told.answers) < len(names)
    rig.backend.gate.set()
    await fetch
    assert len(told.only()) == len(names)


async def test_two_who_want_one_block_ask_for_it_once() -> None:
    rig = Rig()
    await rig.stored([NAME])
    rig.backend.gate.clear()
    one, two = Told(), Told()
    first = asyncio.create_task(rig.client.fetch([NAME], one))
    await asyncio.sleep(0)
    await rig.client.fetch([NAME], two)
    assert not two.answers
    rig.backend.gate.set()
    await first
    assert one.only() == two.only() == [NAME * 4]
    assert rig.backend.asked == [[NAME]]


async def test_what_comes_late_is_given_up() -> None:
    rig = Rig(SOON)
    rig.backend.gate.clear()
    assert await rig.fetch(NAME) == [Cause.SLOW]
    assert not await rig.client.put(NAME, b"raw")
    assert rig.counts.unstored == {Cause.SLOW: 1}


async def test_what_is_spoilt_is_not_used() -> None:
    rig = Rig()
    await rig.stored([NAME])
    rig.backend.spoil = lambda block: block[:-1] + bytes([block[-1] ^ 1])
    assert await rig.fetch(NAME) == [Cause.CORRUPT]


async def test_a_backend_that_fails_is_left_alone_and_asked_again_later() -> None:
    rig = Rig()
    await rig.stored([NAME])
    rig.backend.dead = True
    for _ in range(FAILURES):
        assert await rig.fetch(NAME) == [Cause.BROKEN]
    asked = len(rig.backend.asked)
    assert await rig.fetch(NAME) == [Cause.DOWN]
    assert not await rig.client.put(NAME, b"raw")
    assert len(rig.backend.asked) == asked
    rig.backend.dead = False
    rig.now += FIRST_PAUSE_S
    assert await rig.fetch(NAME) == [NAME * 4]
    assert rig.counts.unstored == {Cause.DOWN: 1}


def test_pauses_grow_to_a_limit() -> None:
    now = 0.0
    health = Health(lambda: now)
    for _ in range(FAILURES + 20):
        health.failed()
    now = LAST_PAUSE_S - 0.1
    assert health.down
    now = LAST_PAUSE_S
    assert not health.down
    health.answered()
    health.failed()
    assert not health.down


async def test_a_full_backend_takes_nothing_and_is_well() -> None:
    rig = Rig()
    rig.backend.full = True
    for _ in range(FAILURES + 1):
        assert not await rig.client.put(NAME, b"raw")
    assert rig.counts.unstored == {Cause.FULL: FAILURES + 1}
    assert await rig.fetch(NAME) == [Cause.MISS]


async def test_blocks_on_their_way_out_are_bounded() -> None:
    rig = Rig(ClientOptions(in_flight_bytes=100))
    rig.backend.gate.clear()
    first = asyncio.create_task(rig.client.put(NAME, bytes(80)))
    await asyncio.sleep(0)
    assert not await rig.client.put(name_of(1), bytes(21))
    assert rig.counts.unstored == {Cause.BUSY: 1}
    rig.backend.gate.set()
    assert await first
    assert await rig.client.put(name_of(1), bytes(21))


async def test_nothing_is_asked_for_while_too_much_waits_to_be_taken() -> None:
    rig = Rig(ClientOptions(in_flight_bytes=200))
    names = [name_of(number) for number in range(3)]
    await rig.stored(names)  # 128 bytes each
    assert len(await rig.fetch(*names[:2])) == 2
    waiting = asyncio.create_task(rig.fetch(names[2]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(rig.backend.asked) == 1
    rig.client.taken(256)
    assert await waiting == [names[2] * 4]


async def test_a_fetch_that_is_cancelled_tells_everybody() -> None:
    rig = Rig()
    rig.backend.gate.clear()
    told, joined = Told(), Told()
    fetch = asyncio.create_task(rig.client.fetch([NAME], told))
    await asyncio.sleep(0)
    await rig.client.fetch([NAME], joined)
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    assert told.only() == joined.only() == [Cause.BROKEN]
    rig.backend.gate.set()
    assert await rig.fetch(NAME) == [Cause.MISS]


async def test_what_was_there_lately_is_known_until_it_is_missed() -> None:
    rig = Rig()
    assert not rig.client.knows(NAME)
    await rig.stored([NAME])
    assert rig.client.knows(NAME)
    rig.backend.blocks.clear()
    await rig.fetch(NAME)
    assert not rig.client.knows(NAME)
