"""Limits of a request and the budgets that a fork divides.

Budgets are divided at the fork, never raced for: what a path may write does not depend on
how fast its siblings are.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_RESERVE = 512


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on the shape of an answer. Hitting one shapes the answer, it never fails it."""

    max_total_tokens: int = 2048  # tokens of the answer, those written by the system included
    max_critical_tokens: int | None = None  # tokens on its longest chain; None: as above
    max_paths: int = 16  # per block
    max_live_paths: int = 32  # decoded at once; more of them queue
    max_depth: int = 4  # blocks inside blocks
    max_path_tokens: int = 4096
    max_goal_tokens: int = 1024
    max_blocks: int = 64


@dataclass(frozen=True, slots=True)
class Budget:
    """What a path may still use, its descendants included.

    `reserve` tokens are kept back at every fork of this path, for what follows the join.
    """

    total: int
    critical: int
    blocks: int
    reserve: int

    @classmethod
    def of(cls, total: int, critical: int, blocks: int) -> Budget:
        return cls(total, critical, blocks, reserve=min(MAX_RESERVE, min(total, critical) // 4))

    @property
    def tokens(self) -> int:
        """Tokens that may be written one after another."""
        return min(self.total, self.critical)

    def spend(self, total: int, critical: int | None = None, blocks: int = 0) -> Budget:
        """What is left after `total` tokens, `critical` of them one after another."""
        critical = total if critical is None else critical
        return Budget(
            self.total - total, self.critical - critical, self.blocks - blocks, self.reserve
        )

    def share(self, paths: int, max_path_tokens: int) -> Budget:
        """What each of `paths` paths may use; a block of this path is already paid."""
        total = min(max_path_tokens, (self.total - self.reserve) // paths)
        critical = min(total, self.critical - self.reserve)
        return Budget.of(max(0, total), max(0, critical), self.blocks // paths)
