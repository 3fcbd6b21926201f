"""Workers that tell of themselves in Redis.

Each worker puts its address into the sorted set KEY, with the second (of the server's clock) until
which it is to be believed, and does so again three times in that span; one that leaves takes itself
out. The clock is the server's alone, so no clocks have to agree.

While Redis is away the last known workers stay: their links tell whether they live. A Redis that
came back empty (told by another EPOCH) is not believed to be all for one lifetime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from redis.asyncio import Redis
from redis.exceptions import RedisError

from multiverse_shared.cancellation import raise_if_cancelled
from multiverse_shared.registry import EPOCH, KEY, LIFETIME_S, MEMBERS

POLL_S = 1.0
TIMEOUT_S = 2.0

log = logging.getLogger(__name__)


class RedisRegistry:
    """Reads the registry at `url`, once a second."""

    def __init__(self, url: str, poll_s: float = POLL_S) -> None:
        self._url = url
        self._poll_s = poll_s
        self._last: frozenset[str] = frozenset()
        self._epoch: str | None = None
        self._partial_until = 0.0  # loop time up to which others may still tell of themselves

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        async with _connect(self._url) as client:
            script = client.register_script(MEMBERS)
            away = False
            while True:
                try:
                    epoch, *members = await script(keys=[KEY, EPOCH])
                except (RedisError, OSError) as error:
                    if not away:
                        log.warning("the registry of workers can't be read: %s", error)
                    away = True
                else:
                    if away:
                        log.info("the registry of workers can be read again")
                    away = False
                    yield self._believed(epoch, frozenset(members))
                raise_if_cancelled()
                await asyncio.sleep(self._poll_s)

    def _believed(self, epoch: str, members: frozenset[str]) -> frozenset[str]:
        now = asyncio.get_running_loop().time()
        if epoch != self._epoch:
            if self._epoch is not None:
                log.warning("the registry of workers was emptied; the known ones stay a while")
                self._partial_until = now + LIFETIME_S
            self._epoch = epoch
        self._last = members | self._last if now < self._partial_until else members
        return self._last


def _connect(url: str) -> Redis:
    return Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
    )
