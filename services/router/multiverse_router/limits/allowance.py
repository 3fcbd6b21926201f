"""What limits are, and what is asked of them. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the keys of one name allow; None: no limit."""

    concurrency: int | None = None  # answers in flight
    requests: int | None = None  # answers begun in a minute
    tokens: int | None = None  # prompt and answer, in a minute
    priority: int = 0  # the higher goes first where requests queue

    @property
    def limited(self) -> bool:
        return (self.concurrency, self.requests, self.tokens) != (None, None, None)


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
