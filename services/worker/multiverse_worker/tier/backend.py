"""The contract of a backend: where blocks lie.

A backend may forget any block at any time. It keeps within its own cap by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from multiverse_worker.tier.pieces import Name


class BackendError(Exception):
    """The backend could not be reached, broke off, or answered with an error."""


class BackendFull(BackendError):
    """It has no room for the block and makes none."""


class Backend(ABC):
    """Called on one event loop; calls may overlap, and be cancelled at any time."""

    @abstractmethod
    async def get(self, names: Sequence[Name]) -> list[bytes | None]:
        """The blocks of these names in one round trip, in order; None for one that is not there.

        No name twice: Mooncake garbles one of them. What is read lives on for a full time to
        live. BackendError when there is no answer.
        """

    @abstractmethod
    async def put(self, name: Name, block: bytes) -> None:
        """Keep a block; one that is there already is as good. BackendError, BackendFull."""

    @abstractmethod
    async def close(self) -> None:
        """End all connections. Nothing may be called afterwards."""
