"""Limits that hold over all routers of one Redis.

What is reserved is taken in one atomic step; what was used is settled behind the answer. A router
renews the places of its answers; those of one that died are free after 30 s.

While Redis is away (or slower than TIMEOUT_S) each router keeps the limits by itself, as if it were
the only one: n routers then allow up to n times as much. It is asked again after AWAY_S. A Redis
that comes back empty learns of the places within RENEW_S; its buckets start full.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from multiverse_router.limits.allowance import Claim
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.refusal import used_up
from multiverse_router.limits.scripts import (
    LIFETIME_S,
    RENEW,
    RESERVE,
    SETTLE,
    keys_of,
    numbers,
)
from multiverse_shared.api_keys import Allowance
from multiverse_shared.cancellation import raise_if_cancelled

TIMEOUT_S = 0.5
AWAY_S = 1.0
RENEW_S = 10.0
MOST_UNSETTLED = 100_000
MOST_CONNECTIONS = 8  # a burst of requests waits for one of them: commands take microseconds
LAST_S = 2.0
_Settlement = tuple[str, str, int, int, int]

log = logging.getLogger(__name__)


class SharedLimits:
    """See `Limits`. Run `run` in a task: it settles and renews."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """A command may take `timeout_s`, and waiting for a connection as long."""
        pool = BlockingConnectionPool.from_url(
            url,
            decode_responses=True,
            max_connections=MOST_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
        )
        self._client = Redis.from_pool(pool)
        self._reserve = self._client.register_script(RESERVE)
        self._settle = self._client.register_script(SETTLE)
        self._renew = self._client.register_script(RENEW)
        self._local = LocalLimits()
        self._held: dict[str, set[str]] = defaultdict(set)  # ids of answers, by tenant
        self._settlements: asyncio.Queue[_Settlement | None] = asyncio.Queue()
        self._asked_again_at = 0.0  # loop time; 0: Redis is there

    async def reserve(self, claim: Claim, allowance: Allowance) -> None:
        if not allowance.limited:
            return
        if self._away:
            await self._local.reserve(claim, allowance)
        else:
            try:
                given: list[str | int] = [*numbers(allowance), claim.tokens, LIFETIME_S]
                said = await self._reserve(keys=keys_of(claim.tenant), args=[*given, *claim.ids])
            except (RedisError, OSError) as error:
                raise_if_cancelled()
                self._lost(error)
                await self._local.reserve(claim, allowance)
            else:
                self._found()
                if said:
                    raise used_up(said[0], claim.tenant, allowance, float(said[1]))
                self._local.note(claim, allowance)
        self._held[claim.tenant].update(claim.ids)

    def settle(self, tenant: str, id: str, reserved: int, used: int, allowance: Allowance) -> None:
        if not allowance.limited:
            return
        self._local.settle(tenant, id, reserved, used, allowance)
        self._held[tenant].discard(id)
        if not self._held[tenant]:
            del self._held[tenant]
        if self._settlements.qsize() < MOST_UNSETTLED:  # else the place ends by itself
            limit = -1 if allowance.tokens is None else allowance.tokens
            self._settlements.put_nowait((tenant, id, limit, reserved, used))

    async def run(self) -> None:
        """Until cancelled; what was not settled by then has a moment still."""
        settling = asyncio.create_task(self._settling())
        try:
            await self._renewing()
        finally:
            self._settlements.put_nowait(None)
            await asyncio.wait([settling], timeout=LAST_S)
            settling.cancel()
            await self._client.aclose()

    async def _settling(self) -> None:
        while (settlement := await self._settlements.get()) is not None:
            await self._settle_one(settlement)

    async def _settle_one(self, settlement: _Settlement) -> None:
        tenant, id, limit, reserved, used = settlement
        if self._away:
            return  # a place that is not renewed ends; a bucket fills up
        places, _, tokens = keys_of(tenant)
        try:
            await self._settle(keys=(places, tokens), args=(id, limit, reserved, used))
        except (RedisError, OSError) as error:
            self._lost(error)

    async def _renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            for tenant, ids in list(self._held.items()):
                if self._away:
                    break
                try:
                    await self._renew(keys=[keys_of(tenant)[0]], args=[LIFETIME_S, *ids])
                except (RedisError, OSError) as error:
                    self._lost(error)
                raise_if_cancelled()

    @property
    def _away(self) -> bool:
        return asyncio.get_running_loop().time() < self._asked_again_at

    def _lost(self, error: Exception) -> None:
        if not self._asked_again_at:
            log.warning("limits hold in this router only, Redis can't be asked: %s", error)
        self._asked_again_at = asyncio.get_running_loop().time() + AWAY_S

    def _found(self) -> None:
        if self._asked_again_at:
            log.info("limits hold over all routers again")
        self._asked_again_at = 0.0
