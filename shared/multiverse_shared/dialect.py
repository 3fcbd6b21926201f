"""Dialects: which tags and templates a model forks and joins with, as data.

Knows the schema of a dialect file. Must not know token ids (see `grammar`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, TypeVar

from multiverse_shared.errors import InvalidDialect
from multiverse_shared.tree import JoinRule


class Tag(StrEnum):
    """The roles that a dialect's tags play."""

    BLOCK_OPEN = "block_open"
    PLAN_OPEN = "plan_open"
    OUTLINE_OPEN = "outline_open"
    OUTLINE_CLOSE = "outline_close"
    PLAN_CLOSE = "plan_close"
    PATH_OPEN = "path_open"
    PATH_CLOSE = "path_close"
    JOIN_OPEN = "join_open"
    JOIN_CLOSE = "join_close"
    BLOCK_CLOSE = "block_close"
    PROMISE_OPEN = "promise_open"  # attributes stand between the two
    PROMISE_CLOSE = "promise_close"
    SYNC = "sync"


_PLAN = (Tag.PLAN_OPEN, Tag.OUTLINE_OPEN, Tag.OUTLINE_CLOSE, Tag.PLAN_CLOSE)
_BLOCK = (Tag.BLOCK_OPEN, Tag.BLOCK_CLOSE, Tag.JOIN_OPEN, Tag.JOIN_CLOSE)
_PATH = (Tag.PATH_OPEN, Tag.PATH_CLOSE)
_PROMISE = (Tag.PROMISE_OPEN, Tag.PROMISE_CLOSE, Tag.SYNC)
# By whether the parent waits at a fork: the tags a dialect must have, and those it may have.
_NEEDED = {True: frozenset({*_PLAN, *_PATH}), False: frozenset({*_PROMISE, *_PATH})}
_OPTIONAL: dict[bool, frozenset[Tag]] = {True: frozenset(_BLOCK), False: frozenset()}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect. Every token that the system writes comes from one of the four templates.

    Where the parent waits, a plan forks k paths at once. Where it does not (PASTA, arXiv
    2502.11517), each promise forks one path, the parent writes on as the last path of that
    block, and a sync closes all open blocks.
    """

    name: str
    parent_waits: bool
    tags: Mapping[Tag, str]  # those it has
    outline_label: str  # how an outline begins; `{label}` is its number
    separator: str  # what the model writes between its own tags
    after_plan: str  # written once, in the parent, after the plan
    path_header: str  # written at the start of a path; may use `{label}`
    path_tail: str  # written inside the path, after its closing tag
    join_header: str  # written in the parent when all paths have ended
    rule: JoinRule
    path_offset: int
    join_offset: int


_TEMPLATES = ("after_plan", "path_header", "path_tail", "join_header")
_KEYS = {
    "name",
    "parent_waits",
    "tags",
    "outline_label",
    "separator",
    "templates",
    "rule",
    "path_offset",
    "join_offset",
}
T = TypeVar("T")


def dialect_names() -> list[str]:
    """The dialects that ship."""
    folder = resources.files("multiverse_shared") / "dialects"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir())


def load_dialect(name: str) -> Dialect:
    """The dialect that ships under `name`; InvalidDialect lists the names that exist."""
    known = dialect_names()
    if name not in known:
        raise InvalidDialect(
            f"unknown dialect {name!r}; known: {', '.join(known)}", field="dialect"
        )
    source = resources.files("multiverse_shared") / "dialects" / f"{name}.json"
    return parse_dialect(json.loads(source.read_text("utf-8")), f"dialects/{name}.json")


def parse_dialect(data: Mapping[str, Any], source: str) -> Dialect:
    """A dialect from its JSON form; InvalidDialect names `source` and the key at fault."""
    _only(data, _KEYS, source)
    waits = _take(data, "parent_waits", bool, source)
    templates: dict[str, Any] = _take(data, "templates", dict, source)
    _only(templates, set(_TEMPLATES), source)
    rule = _take(data, "rule", str, source)
    if rule not in {known.value for known in JoinRule}:
        raise InvalidDialect(f"{source}: unknown join rule {rule!r}", field="rule")
    if rule == JoinRule.RESERVE and waits:
        raise InvalidDialect(
            f"{source}: rule 'reserve' is for dialects whose parent does not wait", field="rule"
        )
    return Dialect(
        name=_take(data, "name", str, source),
        parent_waits=waits,
        tags=_tags(_take(data, "tags", dict, source), waits, source),
        outline_label=_take(data, "outline_label", str, source),
        separator=_take(data, "separator", str, source),
        **{name: _take(templates, name, str, source) for name in _TEMPLATES},
        rule=JoinRule(rule),
        path_offset=_take(data, "path_offset", int, source),
        join_offset=_take(data, "join_offset", int, source),
    )


def _tags(raw: Mapping[str, Any], waits: bool, source: str) -> dict[Tag, str]:
    needed, known = _NEEDED[waits], _NEEDED[waits] | _OPTIONAL[waits]
    _only(raw, known, source)
    for tag in Tag:
        if tag in needed and tag not in raw:
            raise InvalidDialect(f"{source}: tags lack {tag.value!r}", field="tags")
    for key, spelling in raw.items():
        if not isinstance(spelling, str) or not spelling:
            raise InvalidDialect(f"{source}: key {key!r} must be a non-empty str", field=key)
    if len(set(raw.values())) < len(raw):
        raise InvalidDialect(f"{source}: two tags are spelled alike", field="tags")
    return {tag: raw[tag] for tag in Tag if tag in raw}


def _only(mapping: Mapping[str, Any], known: set[str] | frozenset[Tag], source: str) -> None:
    unknown = set(mapping) - known
    if unknown:
        raise InvalidDialect(f"{source}: unknown key {min(unknown)!r}", field=min(unknown))


def _take(mapping: Mapping[str, Any], key: str, kind: type[T], source: str) -> T:
    value = mapping.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidDialect(f"{source}: key {key!r} must be a {kind.__name__}", field=key)
    return value
