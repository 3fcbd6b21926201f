"""A worker tells of itself in the registry, until it leaves.

Redis may be away at any time: the worker serves on, and tells again when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

from multiverse_shared.cancellation import raise_if_cancelled
from multiverse_shared.registry import BEAT, BEAT_S, KEY, LIFETIME_S

TIMEOUT_S = 2.0

log = logging.getLogger(__name__)


class Registration:
    """Of one worker at `address`, as routers reach it."""

    def __init__(self, url: str, address: str) -> None:
        self._address = address
        self._client: Redis = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        )

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Told inside, taken back at the end."""
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            await self._leave()
            await self._client.aclose()

    async def _leave(self) -> None:
        try:
            await self._client.zrem(KEY, self._address)
        except (RedisError, OSError) as error:
            log.warning("the registry still names this worker for a while: %s", error)

    async def _beat(self) -> None:
        beat = self._client.register_script(BEAT)
        away = False
        while True:
            try:
                await beat(keys=[KEY], args=[self._address, LIFETIME_S])
                away = False
            except (RedisError, OSError) as error:
                if not away:
                    log.warning("the registry can't be told: %s", error)
                away = True
            raise_if_cancelled()
            await asyncio.sleep(BEAT_S)
