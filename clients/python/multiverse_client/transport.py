"""What a transport is: how a request goes out and events come back. One attempt, no retry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from multiverse_client.events import Event


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; None: no end.

    `silence_s` is how long a server may send nothing at all: heartbeats and pings count as life.
    `total_s` is for one attempt, from the request to the last event.
    """

    connect_s: float = 10.0
    silence_s: float = 60.0
    total_s: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is served."""

    name: str
    dialect: str
    positions: str
    context_length: int


class Transport(Protocol):
    """Raises ApiErrors only."""

    def open(self, body: dict[str, Any]) -> AbstractContextManager[Iterator[Event]]:
        """Ask; inside, the answer has begun.

        The iterator ends after `finish`, or raises. Leaving the context ends the answer.
        """

    def models(self) -> list[Model]: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The same, in asyncio."""

    def open(self, body: dict[str, Any]) -> AbstractAsyncContextManager[AsyncIterator[Event]]: ...

    async def models(self) -> list[Model]: ...

    async def close(self) -> None: ...
