"""Who belongs to the fleet: addresses of workers, whole each time.

A source never says what has changed, only what is there; so nothing that was missed can last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol


class Discovery(Protocol):
    """Where workers are looked for."""

    def watch(self) -> AsyncIterator[frozenset[str]]:
        """All addresses (host:port) that there are, each time they may have changed.

        Goes on through failures of what it asks; ends only when nothing can change any more.
        """


class StaticList:
    """The same workers for ever."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = frozenset(addresses)

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        yield self._addresses
