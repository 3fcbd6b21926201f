"""Letting answers in: a place in this router, and what the limits of the tenant allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiverse_router.limits.allowance import Claim, Limits
from multiverse_router.limits.places import Places
from multiverse_shared.api_keys import Allowance


@dataclass(slots=True)
class Grant:
    """One answer that was let in. `used` counts its tokens; `end` gives back what is left."""

    id: str
    tenant: str
    reserved: int
    allowance: Allowance
    limits: Limits
    places: Places
    used: int = 0
    ended: bool = False

    def end(self) -> None:
        """May be called more than once."""
        if not self.ended:
            self.ended = True
            self.places.give()
            self.limits.settle(self.tenant, self.id, self.reserved, self.used, self.allowance)


class Admissions:
    """`allowance` is what a tenant may have; `queue_s` how long a request may wait for a place."""

    def __init__(
        self,
        places: Places,
        limits: Limits,
        allowance: Callable[[str], Allowance] = lambda tenant: Allowance(),
        queue_s: float = 0.0,
    ) -> None:
        self.places = places
        self._limits = limits
        self._allowance = allowance
        self._queue_s = queue_s

    async def admit(
        self,
        tenant: str,
        ids: Sequence[str],
        tokens: int,
        deadline_s: float | None = None,
        priority: int | None = None,
    ) -> list[Grant]:
        """All of `ids` or none, each of which may cost `tokens`. CapacityExceeded.

        `priority` is what they ask for; it counts up to that of the tenant.

        The limits of the tenant are asked last: what waits in vain has used nothing up.
        """
        allowance = self._allowance(tenant)
        within = self._queue_s if deadline_s is None else min(self._queue_s, deadline_s)
        await self.places.take(len(ids), allowance.ranked(priority), within)
        try:
            claim = Claim(tenant, tuple(ids), tokens * len(ids))
            await self._limits.reserve(claim, allowance)
        except BaseException:
            self.places.give(len(ids))
            raise
        return [Grant(id, tenant, tokens, allowance, self._limits, self.places) for id in ids]
