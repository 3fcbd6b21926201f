"""The gate: the one place that decides who may call, over HTTP and gRPC alike."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from multiverse_router.visit import Visit, current
from multiverse_shared.api_keys import Allowance, KeyFile
from multiverse_shared.errors import InvalidRequest

DEADLINE_HEADER = "x-deadline-s"
MOST_DEADLINE_S = 86400.0


class Gate:
    """`keys` None: open to everybody."""

    def __init__(self, keys: KeyFile | None) -> None:
        self._keys = keys

    @property
    def is_open(self) -> bool:
        return self._keys is None

    def allowance(self, tenant: str) -> Allowance:
        """What `tenant` may have."""
        return Allowance() if self._keys is None else self._keys.ring.allowance(tenant)

    def admit(self, visit: Visit, headers: Mapping[str, str]) -> None:
        """Fill in tenant and deadline. Unauthenticated or InvalidRequest name the header.

        `headers` are by lower-case name: HTTP headers, or the metadata of a gRPC call.
        """
        if self._keys is not None:
            visit.tenant = self._keys.tenant(headers)
        visit.deadline = _deadline(headers)

    async def admit_call(self, metadata: Mapping[str, str]) -> None:
        """`admit` for a gRPC interceptor: begins the visit of the calling task, too."""
        visit = Visit.begin(metadata)
        current.set(visit)
        self.admit(visit, metadata)


def _deadline(headers: Mapping[str, str]) -> float | None:
    given = headers.get(DEADLINE_HEADER)
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_DEADLINE_S:
        raise InvalidRequest(
            f"{DEADLINE_HEADER}: give seconds, above 0 and up to {MOST_DEADLINE_S:.0f}",
            field=DEADLINE_HEADER,
        )
    return time.monotonic() + seconds
