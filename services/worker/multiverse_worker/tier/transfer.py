"""How KV goes in and out of an engine. Knows settings by value; must not know engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:  # its packages are an extra
    from multiverse_worker.tier.tier import Tier

Prefixes: TypeAlias = Literal["never", "reused", "always"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """See the settings of the tier. The engine closes the tier."""

    tier: Tier | None = None
    always: bool = False  # fetch without asking what it costs
    prefixes: Prefixes = "reused"


NO_TRANSFER = Transfer()
