"""The Redis backend against a real server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from multiverse_worker.tier.backend import Backend, BackendError, BackendFull
from multiverse_worker.tier.pieces import Name
from multiverse_worker.tier.redis_backend import PREFIX, RedisBackend
from tests.integration.tier.conformance import NAMES, BackendConformance
from tests.redis_server import RedisServer, redis_server

MIB = 1 << 20
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    """Empty."""
    async with Redis(port=server.port) as client:
        await client.flushall()
        yield client


@pytest.fixture
async def backend(server: RedisServer, redis: Redis) -> AsyncIterator[RedisBackend]:
    opened = backend_of(server)
    yield opened
    await opened.close()


def backend_of(server: RedisServer, cap_bytes: int = 64 * MIB, ttl_s: float = 60.0) -> RedisBackend:
    return RedisBackend(server.url, cap_bytes, ttl_s, TIMEOUT_S)


class TestRedis(BackendConformance):
    """What every backend must do."""


async def blocks_in(redis: Redis) -> int:
    found = 0
    async for _ in redis.scan_iter(PREFIX + b"*", count=10_000):
        found += 1
    return found


async def gone(redis: Redis, names: list[Name]) -> None:
    """Wait until the blocks have expired."""
    async with asyncio.timeout(TIMEOUT_S):
        while await redis.exists(*(PREFIX + name for name in names)):
            await redis.ping()


async def memory_of(redis: Redis) -> int:
    return int((await redis.info("memory"))["used_memory"])


async def fill(backend: Backend, blocks: int, rng: random.Random, largest: int) -> None:
    """Random sizes, many calls at a time."""

    async def put(numbers: range) -> None:
        for number in numbers:
            name = number.to_bytes(32, "little")
            await backend.put(name, rng.randbytes(rng.randint(1, largest)))

    for errors in await asyncio.gather(
        *(put(range(part, blocks, 16)) for part in range(16)), return_exceptions=True
    ):
        if errors:
            raise errors


async def test_memory_stays_under_the_cap(server: RedisServer, redis: Redis) -> None:
    """A small share of `make bench-tier-cap`, which fills in 10^5 blocks."""
    cap = 8 * MIB
    empty = await memory_of(redis)
    backend = backend_of(server, cap)
    for largest in (60_000, 200, 8_000):
        await fill(backend, 500, random.Random(largest), largest)
        assert await memory_of(redis) - empty < cap
    await backend.close()


async def test_the_block_used_longest_ago_goes_first(server: RedisServer, redis: Redis) -> None:
    backend = backend_of(server, 2 * MIB)
    old, read, *others = NAMES[:8]
    for name in (old, read, *others[:4]):
        await backend.put(name, bytes(100_000))
    assert await backend.get([read]) == [bytes(100_000)]
    await backend.put(others[4], bytes(100_000))
    await backend.put(others[5], bytes(100_000))
    left = await backend.get([old, read, others[5]])
    assert left == [None, bytes(100_000), bytes(100_000)]
    await backend.close()


async def test_blocks_that_are_not_read_expire(server: RedisServer, redis: Redis) -> None:
    backend = backend_of(server, ttl_s=0.05)
    await backend.put(NAMES[0], b"block")
    await gone(redis, NAMES[:1])
    assert await backend.get([NAMES[0]]) == [None]
    await backend.close()


async def test_reading_lets_a_block_live_on(server: RedisServer, redis: Redis) -> None:
    short, long = backend_of(server, ttl_s=60.0), backend_of(server, ttl_s=1000.0)
    await short.put(NAMES[0], b"block")
    await long.get([NAMES[0]])
    assert await redis.ttl(PREFIX + NAMES[0]) > 900
    for backend in (short, long):
        await backend.close()


async def test_what_expired_is_not_counted_for_ever(server: RedisServer, redis: Redis) -> None:
    """An index entry of an expired block goes when room is needed."""
    short = backend_of(server, 2 * MIB, ttl_s=0.05)
    for name in NAMES[:6]:
        await short.put(name, bytes(100_000))
    await gone(redis, NAMES[:6])
    lasting = backend_of(server, 2 * MIB)
    for name in NAMES[10:16]:
        await lasting.put(name, bytes(100_000))
    assert await lasting.get(NAMES[10:16]) == [bytes(100_000)] * 6
    for backend in (short, lasting):
        await backend.close()


async def test_nothing_else_in_redis_is_touched(server: RedisServer, redis: Redis) -> None:
    await redis.set("theirs", bytes(MIB))
    backend = backend_of(server, 2 * MIB)
    await fill(backend, 500, random.Random(1), 50_000)
    assert await redis.get("theirs") == bytes(MIB)
    await backend.close()


async def test_a_block_of_half_the_cap_is_refused(server: RedisServer, redis: Redis) -> None:
    backend = backend_of(server, 2 * MIB)
    with pytest.raises(BackendFull):
        await backend.put(NAMES[0], bytes(MIB // 2))
    assert await blocks_in(redis) == 0
    await backend.close()


async def test_a_server_that_is_full_of_other_things_says_so(redis: Redis) -> None:
    with redis_server("--maxmemory", "4mb", "--maxmemory-policy", "noeviction") as small:
        async with Redis(port=small.port) as client:
            await client.set("theirs", bytes(MIB))
        backend = backend_of(small)
        with pytest.raises(BackendFull):
            await fill(backend, 100, random.Random(1), 100_000)
        await backend.close()


async def test_a_server_that_is_gone_is_an_error_and_one_that_is_back_is_used() -> None:
    with redis_server() as first:
        backend = backend_of(first)
        await backend.put(NAMES[0], b"block")
        first.kill()
        with pytest.raises(BackendError):
            await backend.get([NAMES[0]])
        with pytest.raises(BackendError):
            await backend.put(NAMES[0], b"block")
        with redis_server(port=first.port):
            assert await backend.get([NAMES[0]]) == [None]
            await backend.put(NAMES[0], b"block")
            assert await backend.get([NAMES[0]]) == [b"block"]
        await backend.close()
