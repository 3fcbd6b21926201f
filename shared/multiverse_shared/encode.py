"""From a tree of text to a context tree of ids, just as serving would have made it.

Every template and every body is encoded alone and the ids are concatenated, because that is
how they come about at serving time: bodies from the model, templates from the system.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from multiverse_shared.dialect import Tag
from multiverse_shared.errors import InvalidDialect
from multiverse_shared.grammar import Grammar, Ids
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
    """The context tree of `tree`; what the system writes at serving time is marked so.

    InvalidDialect for blocks in a dialect whose parent does not wait.
    """
    items: list[Item] = []
    for node in tree:
        if isinstance(node, str):
            if node:
                items.append(Text(tuple(grammar.tokenizer.encode(node))))
        else:
            items.extend(_encode_block(node, grammar))
    return tuple(items)


def _encode_block(block: TextBlock, grammar: Grammar) -> list[Item]:
    dialect, gap = grammar.dialect, grammar.separator
    if not dialect.parent_waits:
        raise InvalidDialect(f"dialect {dialect.name!r} has no plans to encode", field="dialect")

    def tag(role: Tag) -> Ids:
        """The tag with its separator; nothing where the dialect has no such tag."""
        return grammar.tags[role] + gap if role in grammar.tags else ()

    plan: list[int] = [*tag(Tag.BLOCK_OPEN), *tag(Tag.PLAN_OPEN)]
    for number, outline in enumerate(block.outlines, 1):
        plan.extend(grammar.tags[Tag.OUTLINE_OPEN])
        plan.extend(grammar.outline_label(str(number)))
        plan.extend(grammar.tokenizer.encode(outline))
        plan.extend(gap)
        plan.extend(tag(Tag.OUTLINE_CLOSE))
    plan.extend(grammar.tags[Tag.PLAN_CLOSE])
    paths = tuple(
        (
            Text(grammar.path_header(str(number)), written=True),
            *encode(path, grammar),
            Text(gap + grammar.tags[Tag.PATH_CLOSE]),
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
        Text(_end_of_block(grammar)),
    ]


def _end_of_block(grammar: Grammar) -> Ids:
    """What the model writes after its conclusion (not what the join header wrote already)."""
    left = [
        grammar.separator + grammar.tags[role]
        for role in (Tag.JOIN_CLOSE, Tag.BLOCK_CLOSE)
        if role in grammar.tags and role not in grammar.join_tags
    ]
    return tuple(token for ids in left for token in ids)
