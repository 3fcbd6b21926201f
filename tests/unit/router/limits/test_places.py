"""Places in a router, and the queue for them."""

from __future__ import annotations

import asyncio

import pytest

from multiverse_router.limits.places import Places
from multiverse_shared.errors import CapacityExceeded
from tests.unit.router.asgi import until


async def test_without_a_queue_one_too_many_is_refused_at_once() -> None:
    places = Places(2)
    await places.take(2)
    with pytest.raises(CapacityExceeded, match="2 requests are in flight") as refused:
        await places.take(1, within_s=10)
    assert refused.value.retry_after_s
    places.give(2)
    assert places.taken == 0


async def test_who_waits_gets_the_place_that_becomes_free() -> None:
    places = Places(1, 4)
    await places.take(1)
    waiting = asyncio.create_task(places.take(1, within_s=30))
    await until(lambda: places.queued == 1)
    places.give()
    await waiting
    assert (places.taken, places.queued) == (1, 0)


async def test_who_waits_too_long_is_refused_and_holds_nothing() -> None:
    places = Places(1, 4)
    await places.take(1)
    with pytest.raises(CapacityExceeded, match="no place within"):
        await places.take(1, within_s=0.01)
    places.give()
    assert (places.taken, places.queued) == (0, 0)


async def test_the_higher_priority_goes_first_then_who_came_first() -> None:
    places, order = Places(1, 8), []

    async def wait(name: str, priority: int) -> None:
        await places.take(1, priority, 30)
        order.append(name)

    await places.take(1)
    async with asyncio.TaskGroup() as tasks:
        for queued, (name, priority) in enumerate([("a", 0), ("b", 1), ("c", 0), ("d", 1)], 1):
            tasks.create_task(wait(name, priority))
            await until(lambda queued=queued: places.queued == queued)
        for served in range(1, 5):
            places.give()
            await until(lambda served=served: len(order) == served)
    assert order == ["b", "d", "a", "c"]


async def test_nobody_overtakes_who_needs_more_places() -> None:
    places, order = Places(2, 8), []

    async def wait(count: int) -> None:
        await places.take(count, within_s=30)
        order.append(count)

    await places.take(2)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(wait(2))
        await until(lambda: places.queued == 1)
        tasks.create_task(wait(1))
        await until(lambda: places.queued == 2)
        places.give()
        await asyncio.sleep(0)
        assert order == []
        places.give()
        await until(lambda: order == [2])
        places.give(2)
    assert order == [2, 1]


async def test_who_leaves_the_queue_lets_the_next_one_go_on() -> None:
    places = Places(2, 8)
    await places.take(1)
    large = asyncio.create_task(places.take(2, within_s=30))
    await until(lambda: places.queued == 1)
    small = asyncio.create_task(places.take(1, within_s=30))
    await until(lambda: places.queued == 2)
    large.cancel()
    await small
    places.give(2)
    assert (places.taken, places.queued) == (0, 0)


async def test_a_place_that_came_as_the_caller_left_is_given_back() -> None:
    places = Places(1, 8)
    await places.take(1)
    waiting = asyncio.create_task(places.take(1, within_s=30))
    await until(lambda: places.queued == 1)
    places.give()
    waiting.cancel()
    await asyncio.wait([waiting])
    if not waiting.cancelled():
        places.give()
    assert places.taken == 0


async def test_a_full_queue_refuses() -> None:
    places = Places(1, 1)
    await places.take(1)
    waiting = asyncio.create_task(places.take(1, within_s=30))
    await until(lambda: places.queued == 1)
    with pytest.raises(CapacityExceeded):
        await places.take(1, within_s=30)
    waiting.cancel()
    await asyncio.wait([waiting])
