"""How fast a teacher may be asked, by all workers together: buckets in Redis.

Like `pace.LocalPace`: two buckets, filled evenly, each holding ten seconds' worth; what is taken is
booked at once, as a debt if need be, and waited for. While Redis is away nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

BURST_S = 10.0
AWAY_S = 1.0  # between two looks for a Redis that is away
KEEP_S = 600  # a bucket that nobody asked for so long is full, and forgotten
_PREFIX = "multiverse:curator:pace"
_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local delay = 0
for i, key in ipairs(KEYS) do
  local rate, most, amount = tonumber(ARGV[3*i-2]), tonumber(ARGV[3*i-1]), tonumber(ARGV[3*i])
  local level = tonumber(redis.call('HGET', key, 'level') or most)
  local at = tonumber(redis.call('HGET', key, 'at') or now)
  level = math.min(most, level + (now - at) * rate) - amount
  redis.call('HSET', key, 'level', string.format('%.6f', level), 'at', string.format('%.6f', now))
  redis.call('EXPIRE', key, ARGV[#ARGV])
  delay = math.max(delay, -level / rate)
end
return string.format('%.6f', delay)
"""

log = logging.getLogger(__name__)


class RedisPace:
    """Of one teacher, by its name. None: unlimited."""

    def __init__(
        self,
        redis: Redis,
        teacher: str,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
    ) -> None:
        limits = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._rates = {name: most / 60 for name, most in limits.items() if most is not None}
        self._keys = [f"{_PREFIX}:{{{teacher}}}:{name}" for name in self._rates]
        self._take = redis.register_script(_TAKE)

    async def wait(self, tokens: int) -> None:
        amounts = {"requests": 1, "tokens": tokens}
        arguments: list[float] = []
        for name, rate in self._rates.items():
            arguments += [rate, rate * BURST_S, amounts[name]]
        if not arguments:
            return
        keep = KEEP_S + int(sum(amounts[name] / rate for name, rate in self._rates.items()))
        while True:
            try:
                told: Any = self._take(self._keys, [*arguments, keep])
                delay = float(told)
                break
            except RedisError as error:
                log.warning("no Redis, so nothing is asked: %s", error)
                await asyncio.sleep(AWAY_S)
        await asyncio.sleep(delay)
