"""The context tree: what a model has read and written, with its forks.

Knows token ids and structure. Must not know text, tags or engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias


class JoinRule(StrEnum):
    """How the paths of a block lie in the context."""

    STITCH = "stitch"  # all paths start behind the same token; their KV is reused as it is
    RESERVE = "reserve"  # as stitch, but texts may say themselves where they start
    LINEAR = "linear"  # when the block is closed it is one ordinary text, computed again


@dataclass(frozen=True, slots=True)
class Text:
    """A run of tokens. `written` marks what the system wrote, not the model.

    `start` is the position of the first token where that is not the next one (rule "reserve").
    """

    ids: tuple[int, ...]
    written: bool = False
    start: int | None = None


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

    Closed blocks of rule "linear" become plain text. Two contexts that a model cannot tell
    apart have the same normal form, provided their blocks stand at the same places.
    """
    items: list[Item] = []
    for item in context:
        for part in _parts(item):
            last = items[-1] if items else None
            if isinstance(part, Text) and isinstance(last, Text) and part.start is None:
                items[-1] = Text(last.ids + part.ids, start=last.start)
            else:
                items.append(part)
    return tuple(items)


def _parts(item: Item) -> Context:
    """Normal forms that stand for one item."""
    if isinstance(item, Text):
        return (Text(item.ids, start=item.start),) if item.ids else ()
    if item.rule is JoinRule.LINEAR and item.closed:
        return tuple(part for path in item.paths for part in normalise(path))
    return (replace(item, paths=tuple(normalise(path) for path in item.paths)),)


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
