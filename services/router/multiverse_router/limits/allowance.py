"""What is asked of limits. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from multiverse_shared.api_keys import Allowance


@dataclass(frozen=True, slots=True)
class Claim:
    """Answers that are to be begun together: all or none."""

    tenant: str
    ids: tuple[str, ...]
    tokens: int  # that they may cost in all


class Limits(Protocol):
    """The limits of all tenants."""

    async def reserve(self, claim: Claim, allowance: Allowance) -> None:
        """Take what `claim` may cost. CapacityExceeded says what is used up, and until when."""

    def settle(self, tenant: str, id: str, reserved: int, used: int, allowance: Allowance) -> None:
        """An answer has ended: its place is free, what it did not use is given back."""
