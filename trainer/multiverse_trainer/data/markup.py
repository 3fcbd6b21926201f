"""Answers that are text with a dialect's tags, as context trees.

For dialects without plans, and for recorded outputs. Text between two tags is encoded alone, as
serving makes it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from multiverse_shared.errors import InvalidRequest
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Block, Context, Item, Text


def read_markup(markup: str, grammar: Grammar, start: int) -> Context:
    """The tree of an answer whose first token stands at `start`; headers are marked written.

    InvalidRequest for anything that breaks the grammar of the dialect.
    """
    reading = read(_ids(markup, grammar), grammar, Limits(), start)
    if reading.irregular:
        faults = ", ".join(sorted(reading.irregular))
        raise InvalidRequest(f"markup: {faults}", field="markup")
    if not any(isinstance(item, Block) for item in reading.context):
        raise InvalidRequest("markup: it has no block", field="markup")
    return _mark(reading.context, grammar)


def _ids(markup: str, grammar: Grammar) -> list[int]:
    spellings = {text: grammar.tags[tag] for tag, text in grammar.dialect.tags.items()}
    longest_first = sorted(spellings, key=len, reverse=True)
    pieces = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", markup)
    ids: list[int] = []
    for piece in pieces:
        ids.extend(spellings.get(piece) or grammar.tokenizer.encode(piece))
    return ids


def _mark(context: Context, grammar: Grammar) -> Context:
    """Mark as written what the system writes: the headers of paths and of conclusions."""
    items: list[Item] = []
    waits = grammar.dialect.parent_waits
    for item in context:
        if isinstance(item, Block):
            paths = tuple(_mark(path, grammar) for path in item.paths)
            if waits:
                paths = tuple(
                    _cut(path, grammar.path_header(str(number)))
                    for number, path in enumerate(paths, 1)
                )
            else:  # the last path is the parent's own
                paths = (*(_cut(path, grammar.path_header("")) for path in paths[:-1]), paths[-1])
            items.append(replace(item, paths=paths))
        elif items and isinstance(items[-1], Block) and waits:
            items.extend(_cut((item,), grammar.join_header))
        else:
            items.append(item)
    return tuple(items)


def _cut(path: Context, header: Ids) -> Context:
    """The path with `header` as a written text of its own, where it begins with it."""
    first = path[0] if path else None
    if not header or not isinstance(first, Text) or first.ids[: len(header)] != header:
        return path
    rest = Text(first.ids[len(header) :], first.written)
    return (
        Text(header, written=True, start=first.start),
        *((rest,) if rest.ids else ()),
        *path[1:],
    )
