"""From a tree of text to a context tree of ids, just as serving would have made it.

Every template and every body is encoded alone and the ids are concatenated, because that is
how they come about at serving time: bodies from the model, templates from the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar
from multiverse_shared.tree import Block, Context, Item, Text


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A plan, its paths and what is concluded from them, as text.

    `outlines[i]` belongs to `paths[i]`; labels and tags are not part of either.
    """

    outlines: tuple[str, ...]
    paths: tuple[TextTree, ...]
    conclusion: TextTree

    def __post_init__(self) -> None:
        if not self.outlines or len(self.outlines) != len(self.paths):
            raise ValueError("a block needs as many outlines as paths, and at least one")


TextTree: TypeAlias = tuple[str | TextBlock, ...]


def encode(tree: TextTree, grammar: Grammar) -> Context:
    """The context tree of `tree`; what the system writes at serving time is marked so."""
    items: list[Item] = []
    for node in tree:
        if isinstance(node, str):
            if node:
                items.append(Text(tuple(grammar.tokenizer.encode(node))))
        else:
            items.extend(_encode_block(node, grammar))
    return tuple(items)


def _encode_block(block: TextBlock, grammar: Grammar) -> list[Item]:
    tags, dialect = grammar.tags, grammar.dialect
    plan = [tags[Tag.BLOCK_OPEN], tags[Tag.PLAN_OPEN]]
    for number, outline in enumerate(block.outlines, 1):
        plan.append(tags[Tag.OUTLINE_OPEN])
        plan.extend(grammar.outline_label(str(number)))
        plan.extend(grammar.tokenizer.encode(outline))
        plan.append(tags[Tag.OUTLINE_CLOSE])
    plan.append(tags[Tag.PLAN_CLOSE])
    paths = tuple(
        (
            Text(grammar.path_header(str(number)), written=True),
            *encode(path, grammar),
            Text((tags[Tag.PATH_CLOSE],)),
            Text(grammar.path_tail, written=True),
        )
        for number, path in enumerate(block.paths, 1)
    )
    return [
        Text(tuple(plan)),
        Text(grammar.after_plan, written=True),
        Block(paths, dialect.rule, True, dialect.path_offset, dialect.join_offset),
        Text(grammar.join_header, written=True),
        *encode(block.conclusion, grammar),
        Text((tags[Tag.JOIN_CLOSE], tags[Tag.BLOCK_CLOSE])),
    ]
