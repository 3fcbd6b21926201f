"""Budgets worked out again from a finished answer alone, as the rule for forks has it.

A path that forks keeps back reserve = min(512, a quarter of its tighter budget); each of its k
paths may write min(max_path_tokens, (what is left - reserve) / k) tokens, of these at most what is
left of the critical budget - reserve one after another, in (blocks left) / k blocks; what they
leave comes back at the join.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.dialect import Tag
from multiverse_shared.effects import StartBranch
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Block, Context, count
from multiverse_shared.usage import critical_path
from tests.unit.shared.fake_engine import Record


@dataclass(slots=True)
class Purse:
    """What a path may still spend."""

    total: int
    critical: int
    blocks: int
    reserve: int

    @classmethod
    def of(cls, total: int, critical: int, blocks: int) -> Purse:
        return cls(total, critical, blocks, min(512, min(total, critical) // 4))

    @property
    def tokens(self) -> int:
        return min(self.total, self.critical)


class Audit:
    """Checks one answer; an AssertionError says what was overdrawn."""

    def __init__(self, record: Record, limits: Limits) -> None:
        self._limits = limits
        self._grammar = record.interpreter.grammar
        self._starts: dict[str, list[StartBranch]] = {}
        for start in record.starts.values():
            self._starts.setdefault(start.path, []).append(start)
        total, critical = limits.max_total_tokens, limits.max_critical_tokens
        self.joins = 0
        purse = Purse.of(total, total if critical is None else critical, limits.max_blocks)
        self._path("0", record.context[1:], purse)

    def _path(self, path: str, items: Context, purse: Purse) -> None:
        """Spend what `path` wrote from `purse`, at each fork and join as the rule has it."""
        forked = 0
        for item in items:
            if isinstance(item, Block):
                names = [f"{path}.{forked + n}" for n in range(1, len(item.paths) + 1)]
                forked += len(names)
                self._block(path, item, names, purse)
            purse.total -= count((item,))
            purse.critical -= critical_path((item,))
            assert purse.total >= 0, f"{path} wrote too much"
            assert purse.critical >= 0, f"the longest chain in {path} is too long"
            if isinstance(item, Block):
                self._joined(path, names, purse)

    def _block(self, path: str, block: Block, names: list[str], purse: Purse) -> None:
        purse.blocks -= 1
        assert purse.blocks >= 0, f"{path} forked once too often"
        k = len(names)
        total = min(self._limits.max_path_tokens, (purse.total - purse.reserve) // k)
        critical = min(total, purse.critical - purse.reserve)
        blocks = purse.blocks // k
        for name, inner in zip(names, block.paths, strict=True):
            first = self._starts[name][0]
            header = count(first.context) - count(first.context[:-1])
            share = Purse.of(total, critical, blocks)
            assert first.max_tokens == share.tokens - header - self._closing(name)
            self._path(name, inner, share)
            purse.blocks -= blocks_in(inner)

    def _joined(self, path: str, names: list[str], purse: Purse) -> None:
        """What follows a join has the whole reserve, of which its header is paid."""
        self.joins += 1
        assert purse.tokens >= purse.reserve, "the paths spent what was kept back"
        goes_on = next(
            s for s in self._starts[path] if s.joins and s.joins[-1].startswith(f"{names[-1]}#")
        )
        header = len(self._grammar.join_header)
        assert goes_on.max_tokens == purse.tokens - header - self._closing(path)

    def _closing(self, path: str) -> int:
        """Tokens set aside for the end of a path."""
        if path == "0":
            return 0
        return len(self._grammar.tags[Tag.PATH_CLOSE]) + len(self._grammar.path_tail)


def blocks_in(items: Context) -> int:
    """Blocks at any depth."""
    blocks = [item for item in items if isinstance(item, Block)]
    return len(blocks) + sum(blocks_in(path) for block in blocks for path in block.paths)
