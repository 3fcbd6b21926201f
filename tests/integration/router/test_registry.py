"""Workers that tell of themselves in a real Redis, and routers that find them there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from redis import Redis

from multiverse_router.fleet.discovery import registry as reading
from multiverse_router.fleet.discovery.registry import RedisRegistry
from multiverse_shared.registry import KEY
from multiverse_worker import registration as telling
from multiverse_worker.registration import Registration
from tests.redis_server import RedisServer, redis_server

LIFETIME_S = 1.5


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reading, telling):
        monkeypatch.setattr(module, "LIFETIME_S", LIFETIME_S)
    monkeypatch.setattr(telling, "BEAT_S", 0.1)


class Seen:
    addresses: frozenset[str] = frozenset()
    times = 0


@asynccontextmanager
async def watching(server: RedisServer) -> AsyncIterator[Seen]:
    seen = Seen()

    async def watch() -> None:
        async for seen.addresses in RedisRegistry(server.url, poll_s=0.05).watch():
            seen.times += 1

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(0.01)


async def test_workers_are_found_while_they_tell_and_gone_when_they_leave() -> None:
    with redis_server() as server:
        async with watching(server) as seen:
            async with Registration(server.url, "one:1").kept():
                await until(lambda: seen.addresses == {"one:1"})
                async with Registration(server.url, "two:1").kept():
                    await until(lambda: seen.addresses == {"one:1", "two:1"})
                await until(lambda: seen.addresses == {"one:1"})
            await until(lambda: not seen.addresses)


async def test_a_worker_that_died_is_believed_for_its_lifetime_only() -> None:
    with redis_server() as server, Redis(port=server.port) as client:
        async with watching(server) as seen:
            seconds, micros = client.time()
            client.zadd(KEY, {"dead:1": seconds + micros / 1e6 + LIFETIME_S})
            await until(lambda: seen.addresses == {"dead:1"})
            await until(lambda: not seen.addresses)
            assert client.zcard(KEY) == 0


async def test_the_known_workers_stay_while_redis_is_away_and_when_it_is_back_empty() -> None:
    with redis_server() as server:
        async with (
            Registration(server.url, "one:1").kept(),
            watching(server) as seen,
        ):
            await until(lambda: seen.addresses == {"one:1"})
            with Redis(port=server.port) as client:
                seconds, _ = client.time()
                client.zadd(KEY, {"slow:1": seconds + 600})
            await until(lambda: seen.addresses == {"one:1", "slow:1"})
            server.kill()
            times = seen.times
            with redis_server(port=server.port):
                await until(lambda: seen.times > times)
                assert seen.addresses == {"one:1", "slow:1"}, "it may not have told yet"
                await until(lambda: seen.addresses == {"one:1"})
