"""Leases: pins on the KV of finished branches, so that a join finds it.

Knows when a pin ends; must not know what is pinned. A lease ends when it is consumed or
released by the stream that owns it, 5 s after that stream is lost, and after 60 s in which no
branch of its request is queued or running.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from multiverse_shared.tree import Context
from multiverse_worker.contract import BranchId, RequestId, Start

LOST_STREAM_GRACE_S = 5.0
QUIET_REQUEST_S = 60.0

T = TypeVar("T")


@dataclass(slots=True)
class Lease(Generic[T]):
    """One pin."""

    id: str
    held: T
    branch: BranchId
    block: BranchId | None  # the branch whose block `branch` was a path of
    request: RequestId
    key: bytes  # content key of the leased context
    context: Context
    quiet_since: float
    expires: float | None = None  # set when the owner's stream is lost


@dataclass(slots=True)
class LeaseBook(Generic[T]):
    """All leases of an engine. `clock` gives monotonic seconds."""

    clock: Callable[[], float]
    _leases: dict[str, Lease[T]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def grant(self, held: T, start: Start, key: bytes, context: Context) -> Lease[T]:
        """A lease for the branch that `start` began, which has ended with `context`."""
        name = f"{start.branch.stream}-{next(self._numbers)}"
        of = (start.branch, start.block, start.owner)
        lease = Lease(name, held, *of, key, context, self.clock())
        self._leases[lease.id] = lease
        return lease

    def end(self, lease_id: str, stream: int) -> Lease[T] | None:
        """Take a lease out of the book; None when this stream has none of that name."""
        lease = self._leases.get(lease_id)
        if lease is None or lease.request.stream != stream:
            return None
        return self._leases.pop(lease_id)

    def by_key(self, key: bytes, stream: int) -> Lease[T] | None:
        """A lease of this stream on the context named by `key`."""
        return next(
            (
                lease
                for lease in self._leases.values()
                if lease.key == key and lease.request.stream == stream
            ),
            None,
        )

    def of_request(self, request: RequestId) -> list[Lease[T]]:
        return [lease for lease in self._leases.values() if lease.request == request]

    def of_lost_streams(self) -> list[Lease[T]]:
        """Leases in their grace: nobody can use them any more."""
        return [lease for lease in self._leases.values() if lease.expires is not None]

    def lose_stream(self, stream: int) -> None:
        """Start the grace of all leases of a lost stream."""
        expires = self.clock() + LOST_STREAM_GRACE_S
        for lease in self._leases.values():
            if lease.request.stream == stream and lease.expires is None:
                lease.expires = expires

    def expired(self, live_requests: Collection[RequestId]) -> list[Lease[T]]:
        """Take out and return what has run out; `live_requests` have branches."""
        now = self.clock()
        out: list[Lease[T]] = []
        for lease in list(self._leases.values()):
            if lease.request in live_requests:
                lease.quiet_since = now
            lost = lease.expires is not None and now >= lease.expires
            if lost or now - lease.quiet_since >= QUIET_REQUEST_S:
                out.append(self._leases.pop(lease.id))
        return out

    def __iter__(self) -> Iterator[Lease[T]]:
        return iter(list(self._leases.values()))

    def __len__(self) -> int:
        return len(self._leases)
