"""Blocks in Redis, under a cap of its own accounting.

Every block is a plain key with a time to live, named in an index by its last use. A block that
comes in pushes out those used longest ago until all of them, with what Redis itself needs for
each, fit the cap again: one script, so several workers may share the cap. A sixteenth of it and
1 MiB are left for what connections buffer. Redis may hold other things beside; none of them is
touched. (`maxmemory` with an eviction policy of Redis' own would evict those, too.) All keys have
one hash tag: a cluster keeps them on one node.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from multiverse_worker.tier.backend import Backend, BackendError, BackendFull
from multiverse_worker.tier.pieces import Name

PREFIX = b"{mv-tier}:"
_USED, _SIZES, _TOTAL = PREFIX + b"used", PREFIX + b"sizes", PREFIX + b"total"
_CONNECTIONS = 8
_ENTRY_BYTES = 512  # of a block in the indices, at most
_RESERVE_SHARE, _RESERVE_BYTES = 16, 1 << 20

# KEYS: block, used, sizes, total. ARGV: bytes, time to live in ms, cap, bytes of an entry.
# `used` orders blocks by when they would expire; what is popped is deleted, so the two agree.
# Room is made before the block comes in, as if the allocator rounded its size up by a quarter.
# SET is the first write unless something was freed: so a server's own `maxmemory` holds, too.
_PUT = """
local now = redis.call('TIME')
local ttl, cap, entry = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local old = tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or '0')
local total = tonumber(redis.call('GET', KEYS[4]) or '0') - old
if old > 0 then
  redis.call('UNLINK', KEYS[1])
  redis.call('ZREM', KEYS[2], KEYS[1])
end
while total + #ARGV[1] * 1.25 + entry > cap do
  local oldest = redis.call('ZPOPMIN', KEYS[2])[1]
  if not oldest then break end
  total = total - tonumber(redis.call('HGET', KEYS[3], oldest) or '0')
  redis.call('HDEL', KEYS[3], oldest)
  redis.call('UNLINK', oldest)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
local size = redis.call('MEMORY', 'USAGE', KEYS[1]) + entry
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000) + ttl, KEYS[1])
redis.call('HSET', KEYS[3], KEYS[1], size)
redis.call('SET', KEYS[4], total + size)
"""


class RedisBackend(Backend):
    """`cap_bytes` (2 MiB or more) is memory of Redis; who shares it must name the same."""

    def __init__(self, url: str, cap_bytes: int, ttl_s: float, timeout_s: float) -> None:
        """ValueError for a URL that is none."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis = Redis(connection_pool=pool)
        self._put = self._redis.register_script(_PUT)
        self._cap = cap_bytes - cap_bytes // _RESERVE_SHARE - _RESERVE_BYTES
        self._ttl_ms = int(ttl_s * 1000)

    async def get(self, names: Sequence[Name]) -> list[bytes | None]:
        keys = [PREFIX + name for name in names]
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.time()
                for key in keys:
                    pipe.getex(key, px=self._ttl_ms)
                (seconds, micros), *blocks = await pipe.execute()
            found = {k: b for k, b in zip(keys, blocks, strict=True) if b is not None}
            if found:
                expires = seconds * 1000 + micros // 1000 + self._ttl_ms
                await self._redis.zadd(_USED, dict.fromkeys(found, expires), xx=True, gt=True)
        except (RedisError, OSError) as error:
            raise BackendError(str(error)) from error
        return blocks

    async def put(self, name: Name, block: bytes) -> None:
        if len(block) + _ENTRY_BYTES > self._cap // 2:
            raise BackendFull(f"a block of {len(block)} bytes under a cap of {self._cap}")
        keys = [PREFIX + name, _USED, _SIZES, _TOTAL]
        try:
            await self._put(keys=keys, args=[block, self._ttl_ms, self._cap, _ENTRY_BYTES])
        except OutOfMemoryError as error:
            raise BackendFull(str(error)) from error
        except ResponseError as error:
            full = "OOM" in str(error)
            raise (BackendFull if full else BackendError)(str(error)) from error
        except (RedisError, OSError) as error:
            raise BackendError(str(error)) from error

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()
