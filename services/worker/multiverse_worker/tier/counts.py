"""What came of the tier, in numbers that never fall."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from multiverse_worker.contract import TierTotals


class Cause(StrEnum):
    """Why a piece is computed, or not kept, in place of coming from the tier."""

    OFF = "off"  # there is no tier
    MISS = "miss"  # it does not have the block
    SLOW = "slow"  # it did not answer in time
    CORRUPT = "corrupt"  # what it gave is not the block
    BROKEN = "broken"  # it broke off, or answered with an error
    DOWN = "down"  # it failed several times in a row, and is left alone for a while
    BUSY = "busy"  # too much is under way already
    FULL = "full"  # it has no room for the block
    CHEAPER = "cheaper"  # computing it takes less time, as measured
    REFUSED = "refused"  # the engine's library did not take the block


@dataclass(slots=True)
class TierCounts:
    """Each field is written by one thread only."""

    fetched_blocks: int = 0
    fetched_bytes: int = 0
    fetched_tokens: int = 0
    stored_blocks: int = 0
    stored_bytes: int = 0
    host_fetched_tokens: int = 0  # from and to the engine's own host memory
    host_stored_tokens: int = 0
    fetch_s: float = 0.0
    saved_s: float = 0.0
    recomputed: Counter[Cause] = field(default_factory=Counter)  # pieces
    recomputed_tokens: Counter[Cause] = field(default_factory=Counter)
    unstored: Counter[Cause] = field(default_factory=Counter)  # blocks

    def recompute(self, cause: Cause, tokens: int) -> None:
        """A piece of so many tokens is computed."""
        self.recomputed[cause] += 1
        self.recomputed_tokens[cause] += tokens

    @property
    def totals(self) -> TierTotals:
        return TierTotals(
            fetched_blocks=self.fetched_blocks,
            fetched_bytes=self.fetched_bytes,
            fetched_tokens=self.fetched_tokens,
            stored_blocks=self.stored_blocks,
            stored_bytes=self.stored_bytes,
            host_fetched_tokens=self.host_fetched_tokens,
            host_stored_tokens=self.host_stored_tokens,
            fetch_s=self.fetch_s,
            saved_s=self.saved_s,
            recomputed=_sorted(self.recomputed),
            recomputed_tokens=_sorted(self.recomputed_tokens),
            unstored=_sorted(self.unstored),
        )


def _sorted(counter: Counter[Cause]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((cause.value, number) for cause, number in list(counter.items())))
