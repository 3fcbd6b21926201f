"""Places of answers: how many are in flight, in all and under each key's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from multiverse_shared.errors import CapacityExceeded


class Places:
    """`most` in all; `most_of` a name, None for any number."""

    def __init__(
        self, most: int, most_of: Callable[[str], int | None] = lambda tenant: None
    ) -> None:
        self._most = most
        self._most_of = most_of
        self._taken = 0
        self._taken_by: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken

    def check(self, tenant: str, more: int = 1) -> None:
        """CapacityExceeded unless `more` answers of `tenant` may be in flight, too."""
        if self._taken + more > self._most:
            raise CapacityExceeded(f"{self._most} requests are in flight; try again later")
        most = self._most_of(tenant)
        if most is not None and self._taken_by[tenant] + more > most:
            raise CapacityExceeded(
                f"{tenant} has {self._taken_by[tenant]} requests in flight, its keys allow {most}; "
                "wait for one to end"
            )

    @contextmanager
    def taking(self, tenant: str) -> Iterator[None]:
        """One place, given back however the scope is left."""
        self._taken += 1
        self._taken_by[tenant] += 1
        try:
            yield
        finally:
            self._taken -= 1
            self._taken_by[tenant] -= 1
            if not self._taken_by[tenant]:
                del self._taken_by[tenant]
