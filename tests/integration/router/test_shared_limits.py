"""Limits over two routers, on a real Redis: never more than allowed, and nothing kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from redis import Redis

from multiverse_router.limits.allowance import Claim, Limits
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.scripts import keys_of
from multiverse_router.limits.shared import SharedLimits
from multiverse_shared.api_keys import Allowance
from multiverse_shared.errors import CapacityExceeded
from tests.redis_server import RedisServer, redis_server

REQUESTS = 10_000


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@asynccontextmanager
async def routers(url: str, count: int = 2) -> AsyncIterator[list[SharedLimits]]:
    limits = [SharedLimits(url, timeout_s=30) for _ in range(count)]
    tasks = [asyncio.create_task(one.run()) for one in limits]
    try:
        yield limits
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_two_routers_never_have_more_in_flight_than_a_key_allows(
    server: RedisServer,
) -> None:
    allowance, rng = Allowance(concurrency=7), Random(1)
    now = most = granted = refused = 0

    async def client(limits: SharedLimits, name: int, requests: int) -> None:
        nonlocal now, most, granted, refused
        for number in range(requests):
            id = f"{name}-{number}"
            try:
                await limits.reserve(Claim("many", (id,), 10), allowance)
            except CapacityExceeded:
                refused += 1
                continue
            now, granted = now + 1, granted + 1
            most = max(most, now)
            await asyncio.sleep(rng.random() * 0.002)
            now -= 1
            limits.settle("many", id, 10, 5, allowance)

    async with routers(server.url) as limits, asyncio.TaskGroup() as tasks:
        for name in range(20):
            tasks.create_task(client(limits[name % 2], name, REQUESTS // 20))
    assert granted + refused == REQUESTS
    assert most <= 7
    assert refused
    with Redis(port=server.port) as redis:
        assert redis.zcard(keys_of("many")[0]) == 0


async def test_exactly_as_many_as_allowed_are_let_in_at_once(server: RedisServer) -> None:
    allowance = Allowance(concurrency=7)

    async def begin(limits: SharedLimits, name: int) -> bool:
        try:
            await limits.reserve(Claim("burst", (str(name),), 10), allowance)
        except CapacityExceeded:
            return False
        return True

    async with routers(server.url) as limits, asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(begin(limits[n % 2], n)) for n in range(100)]
    assert sum(task.result() for task in begun) == 7


async def test_two_routers_share_a_rate_exactly(server: RedisServer) -> None:
    """The bucket holds 1,000, and refills by less than one in a test that takes no hour."""
    allowance = Allowance(requests=1000)
    granted = 0
    waits: set[float | None] = set()

    async def client(limits: SharedLimits, name: int) -> None:
        nonlocal granted
        for number in range(REQUESTS // 50):
            try:
                await limits.reserve(Claim("rate", (f"{name}-{number}",), 0), allowance)
            except CapacityExceeded as error:
                waits.add(error.retry_after_s)
            else:
                granted += 1

    loop = asyncio.get_running_loop()
    async with routers(server.url) as limits:
        begun = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for name in range(50):
                tasks.create_task(client(limits[name % 2], name))
        seconds = loop.time() - begun
    assert all(wait and wait > 0 for wait in waits)
    assert 1000 <= granted <= 1000 + seconds * 1000 / 60 + 1


@pytest.fixture(params=["shared", "local"])
async def limits(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[Limits]:
    """One router's, of both kinds: they do the same."""
    if request.param == "local":
        yield LocalLimits()
        return
    with Redis(port=server.port) as redis:
        redis.flushall()
    async with routers(server.url, 1) as [one]:
        yield one


async def settled(limits: Limits) -> None:
    """What was settled has reached Redis."""
    if isinstance(limits, SharedLimits):
        while not limits._settlements.empty():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await limits._client.ping()


async def test_tokens_that_were_not_used_are_given_back(limits: Limits) -> None:
    allowance = Allowance(tokens=1000)
    await limits.reserve(Claim("t", ("a",), 900), allowance)
    with pytest.raises(CapacityExceeded, match="1000 tokens a minute") as refused:
        await limits.reserve(Claim("t", ("b",), 500), allowance)
    assert 20 < (refused.value.retry_after_s or 0) <= 24
    limits.settle("t", "a", 900, 100, allowance)
    await settled(limits)
    await limits.reserve(Claim("t", ("b",), 500), allowance)


async def test_more_than_was_reserved_is_a_debt(limits: Limits) -> None:
    allowance = Allowance(tokens=1000)
    await limits.reserve(Claim("t", ("a",), 100), allowance)
    limits.settle("t", "a", 100, 2000, allowance)
    await settled(limits)
    with pytest.raises(CapacityExceeded) as refused:
        await limits.reserve(Claim("t", ("b",), 1), allowance)
    assert 50 < (refused.value.retry_after_s or 0) <= 61


async def test_an_answer_that_may_cost_more_than_the_limit_is_let_in_alone(limits: Limits) -> None:
    allowance = Allowance(tokens=1000)
    await limits.reserve(Claim("t", ("a",), 5000), allowance)
    with pytest.raises(CapacityExceeded):
        await limits.reserve(Claim("t", ("b",), 10), allowance)


async def test_all_of_a_claim_or_nothing(limits: Limits) -> None:
    allowance = Allowance(concurrency=3, requests=100)
    await limits.reserve(Claim("t", ("a", "b"), 0), allowance)
    with pytest.raises(CapacityExceeded, match="allow \\(3\\)"):
        await limits.reserve(Claim("t", ("c", "d"), 0), allowance)
    await limits.reserve(Claim("t", ("c",), 0), allowance)


async def test_without_redis_each_router_keeps_the_limits_and_comes_back() -> None:
    allowance = Allowance(concurrency=2)
    with redis_server() as server:
        async with routers(server.url) as (one, other):
            await one.reserve(Claim("t", ("a",), 0), allowance)
            server.kill()
            await one.reserve(Claim("t", ("b",), 0), allowance)
            with pytest.raises(CapacityExceeded):
                await one.reserve(Claim("t", ("c",), 0), allowance)
            await other.reserve(Claim("t", ("d",), 0), allowance)  # as if it were alone
            with redis_server(port=server.port) as back:
                for limits in (one, other):
                    limits._asked_again_at = 1e-9  # now, not in a second
                await other.reserve(Claim("t", ("e",), 0), allowance)
                with Redis(port=back.port) as redis:
                    assert redis.zcard(keys_of("t")[0]) == 1
