"""Limits of this router alone. The same arithmetic as `shared`, without the network.

a place     held from reserve to settle; at most `concurrency` of them
a bucket    level <= most, refilled by most / 60 a second; taken from at reserve, corrected at
            settle, below 0 when more was used than reserved
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from multiverse_router.limits.allowance import Claim
from multiverse_router.limits.refusal import used_up
from multiverse_shared.api_keys import Allowance

PLACE_WAIT_S = 1.0  # told to who waits for a place: nobody knows when one gets free


@dataclass(slots=True)
class Bucket:
    """Of what may be used in a minute."""

    level: float
    at: float

    def filled(self, most: int, now: float) -> float:
        return min(float(most), self.level + (now - self.at) * most / 60)


@dataclass(slots=True)
class _Used:
    """By one tenant."""

    places: set[str] = field(default_factory=set)
    buckets: dict[str, Bucket] = field(default_factory=dict)


class LocalLimits:
    """See `Limits`. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, _Used] = {}

    async def reserve(self, claim: Claim, allowance: Allowance) -> None:
        used, now = self._used.setdefault(claim.tenant, _Used()), self._clock()
        count = len(claim.ids)
        most = allowance.concurrency
        if most is not None and len(used.places) + count > most:
            raise used_up("concurrency", claim.tenant, allowance, PLACE_WAIT_S)
        for kind, wanted in (("requests", count), ("tokens", claim.tokens)):
            limit = getattr(allowance, kind)
            if limit is None:
                continue
            missing = min(wanted, limit) - self._level(used, kind, limit, now)
            if missing > 0:
                raise used_up(kind, claim.tenant, allowance, missing * 60 / limit)
        self.note(claim, allowance)

    def note(self, claim: Claim, allowance: Allowance) -> None:
        """Take what somebody else has granted already."""
        used, now = self._used.setdefault(claim.tenant, _Used()), self._clock()
        used.places.update(claim.ids)
        for kind, wanted in (("requests", len(claim.ids)), ("tokens", claim.tokens)):
            limit = getattr(allowance, kind)
            if limit is not None:
                level = self._level(used, kind, limit, now) - min(wanted, limit)
                used.buckets[kind] = Bucket(level, now)

    def settle(self, tenant: str, id: str, reserved: int, used: int, allowance: Allowance) -> None:
        found = self._used.get(tenant)
        if found is None:
            return
        found.places.discard(id)
        now, limit = self._clock(), allowance.tokens
        if limit is not None and "tokens" in found.buckets:
            level = self._level(found, "tokens", limit, now)
            level = min(float(limit), level + min(reserved, limit) - used)
            found.buckets["tokens"] = Bucket(level, now)
        if not found.places and all(
            bucket.filled(getattr(allowance, kind) or 0, now) >= (getattr(allowance, kind) or 0)
            for kind, bucket in found.buckets.items()
        ):
            del self._used[tenant]  # nothing that a new one would not have

    def _level(self, used: _Used, kind: str, limit: int, now: float) -> float:
        bucket = used.buckets.get(kind)
        return float(limit) if bucket is None else bucket.filled(limit, now)
