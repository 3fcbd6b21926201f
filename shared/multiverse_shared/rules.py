"""What a path may do: whether it may fork, what that must leave, how its paths are labelled.

Pure functions of grammar, limits and budgets. Knows no events.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.limits import Budget, Limits
from multiverse_shared.machine import OpenBlock
from multiverse_shared.path import Path

_LABEL = re.compile(r"\s*([0-9]+(?:\.[0-9]+)*)\s*:")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one answer."""

    grammar: Grammar
    limits: Limits
    forks_allowed: bool

    @property
    def openers(self) -> tuple[Ids, ...]:
        """The tags that begin a block: banned where a path may not fork."""
        tags = self.grammar.tags
        return tuple(tags[tag] for tag in (Tag.BLOCK_OPEN, Tag.PLAN_OPEN) if tag in tags)

    def closing(self, path: Path) -> Ids:
        """What ends the path when the model does not."""
        if path.parent is None:
            return ()
        return self.grammar.tags[Tag.PATH_CLOSE] + self.grammar.path_tail

    def plan_is_full(self, plan: OpenBlock) -> bool:
        """Whether the system closes this plan now."""
        return (
            len(plan.outlines) >= self.limits.max_paths
            or plan.plan_tokens >= self.limits.max_goal_tokens
        )

    def may_fork(self, path: Path) -> bool:
        """Depth, blocks and a budget that could pay the smallest of forks."""
        if not self.forks_allowed or path.depth >= self.limits.max_depth:
            return False
        plan = (Tag.PLAN_OPEN, Tag.OUTLINE_OPEN, Tag.OUTLINE_CLOSE, Tag.PLAN_CLOSE)
        smallest = sum(len(self.grammar.tags[tag]) for tag in plan) + 1  # and a label
        budget = path.budget.spend(smallest + len(self.grammar.after_plan), blocks=1)
        share = budget.share(1, self.limits.max_path_tokens)
        header = len(self.grammar.path_header("1"))
        return budget.blocks >= 0 and self.affordable(path, share, header)

    def affordable(self, path: Path, share: Budget, header: int) -> bool:
        """Each path needs its header, one token and its end; the reserve pays what follows."""
        ends = header + len(self.grammar.tags[Tag.PATH_CLOSE]) + len(self.grammar.path_tail)
        after = len(self.grammar.join_header) + len(self.closing(path))
        return share.tokens > ends and path.budget.reserve > after

    def labels(self, outlines: tuple[Ids, ...]) -> list[str]:
        """The outline's own label where it is well-formed and unique, else its number.

        All are numbers where that would give one label twice.
        """
        own = self._own_labels(outlines)
        counts = Counter(own)
        numbers = [str(number) for number in range(1, len(own) + 1)]
        labels = [
            label if label is not None and counts[label] == 1 else number
            for number, label in zip(numbers, own, strict=True)
        ]
        return labels if len(set(labels)) == len(labels) else numbers

    def well_labelled(self, outlines: tuple[Ids, ...]) -> bool:
        """Whether each outline has a label of its own."""
        own = self._own_labels(outlines)
        return None not in own and len(set(own)) == len(own)

    def _own_labels(self, outlines: tuple[Ids, ...]) -> list[str | None]:
        found = [_LABEL.match(self.grammar.tokenizer.decode(ids)) for ids in outlines]
        return [match.group(1) if match else None for match in found]
