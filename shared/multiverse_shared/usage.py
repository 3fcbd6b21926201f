"""What a generation cost, as a pure function of its tree.

Knows nothing of clocks or money.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.tree import Block, Context, Text, count, texts


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of an answer; its history is not in them."""

    generated: int  # every token of the answer once, those written by the system included
    written: int  # of these, written by the system (headers, forced tags)
    critical: int  # the longest chain of tokens that had to come one after another

    @property
    def parallelism(self) -> float:
        """generated / critical: how many tokens the answer advances per sequential one."""
        return self.generated / self.critical if self.critical else 1.0


def usage(context: Context, from_item: int = 0) -> Usage:
    """Counts over the items from index `from_item` on (what stands before is the prompt)."""
    answer = context[from_item:]
    return Usage(
        generated=count(answer),
        written=sum(len(text.ids) for text in texts(answer) if text.written),
        critical=critical_path(answer),
    )


def critical_path(context: Context) -> int:
    """Tokens on the longest chain: texts add up, a block adds its longest path."""
    return sum(_depth(item) for item in context)


def _depth(item: Text | Block) -> int:
    if isinstance(item, Text):
        return len(item.ids)
    return max((critical_path(path) for path in item.paths), default=0)
