"""The context tree: what a model has read and written, with its forks.

Knows token ids and structure. Must not know text, tags or engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class JoinRule(StrEnum):
    """How the paths of a block lie in the context."""

    STITCH = "stitch"  # all paths start behind the same token; their KV is reused as it is


@dataclass(frozen=True, slots=True)
class Text:
    """A run of tokens. `written` marks what the system wrote, not the model."""

    ids: tuple[int, ...]
    written: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """k paths decoded side by side; each sees what stands before the block and no sibling.

    `closed` is false while paths still run: nothing may follow an open block.
    The offsets are added to the positions that the rule gives to the first token of
    each path and to the first token after the block.
    """

    paths: tuple[Context, ...]
    rule: JoinRule = JoinRule.STITCH
    closed: bool = True
    path_offset: int = 0
    join_offset: int = 0


Item: TypeAlias = Text | Block
Context: TypeAlias = tuple[Item, ...]


def normalise(context: Context) -> Context:
    """The same tokens with adjacent texts merged, empty ones dropped and `written` forgotten.

    Two contexts that a model cannot tell apart have the same normal form, provided their
    blocks stand at the same places.
    """
    items: list[Item] = []
    run: list[int] = []
    for item in context:
        if isinstance(item, Text):
            run.extend(item.ids)
            continue
        if run:
            items.append(Text(tuple(run)))
            run = []
        items.append(
            Block(
                tuple(normalise(path) for path in item.paths),
                item.rule,
                item.closed,
                item.path_offset,
                item.join_offset,
            )
        )
    if run:
        items.append(Text(tuple(run)))
    return tuple(items)


def texts(context: Context) -> Iterator[Text]:
    """Every text in linear order: a block's paths one after another, in their order."""
    for item in context:
        if isinstance(item, Text):
            yield item
        else:
            for path in item.paths:
                yield from texts(path)


def linearise(context: Context, *, written: bool = True) -> tuple[int, ...]:
    """The one flat order of token ids that a plain client reads.

    With `written=False` only what the model itself wrote (and the prompt) is left.
    """
    return tuple(
        token for text in texts(context) if written or not text.written for token in text.ids
    )


def count(context: Context) -> int:
    """Number of tokens in the tree."""
    return sum(len(text.ids) for text in texts(context))
