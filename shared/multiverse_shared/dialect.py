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


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect. Every token that the system writes comes from one of the four templates."""

    name: str
    tags: Mapping[Tag, str]  # those it has; see OPTIONAL_TAGS
    outline_label: str  # how an outline begins; `{label}` is its number
    separator: str  # what the model writes between its own tags
    after_plan: str  # written once, in the parent, after the plan
    path_header: str  # written at the start of a path; may use `{label}`
    path_tail: str  # written inside the path, after its closing tag
    join_header: str  # written in the parent when all paths have ended
    rule: JoinRule
    path_offset: int
    join_offset: int


OPTIONAL_TAGS = frozenset({Tag.BLOCK_OPEN, Tag.BLOCK_CLOSE, Tag.JOIN_OPEN, Tag.JOIN_CLOSE})
_TEMPLATES = ("after_plan", "path_header", "path_tail", "join_header")
_KEYS = {
    "name",
    "tags",
    "outline_label",
    "separator",
    "templates",
    "rule",
    "path_offset",
    "join_offset",
}
T = TypeVar("T")


def load_dialect(name: str) -> Dialect:
    """The dialect that ships under `name`; InvalidDialect lists the names that exist."""
    folder = resources.files("multiverse_shared") / "dialects"
    source = folder / f"{name}.json"
    if not source.is_file():
        known = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir())
        raise InvalidDialect(
            f"unknown dialect {name!r}; known: {', '.join(known)}", field="dialect"
        )
    return parse_dialect(json.loads(source.read_text("utf-8")), f"dialects/{name}.json")


def parse_dialect(data: Mapping[str, Any], source: str) -> Dialect:
    """A dialect from its JSON form; InvalidDialect names `source` and the key at fault."""

    def take(mapping: Mapping[str, Any], key: str, kind: type[T]) -> T:
        value = mapping.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidDialect(f"{source}: key {key!r} must be a {kind.__name__}", field=key)
        return value

    unknown = set(data) - _KEYS
    if unknown:
        raise InvalidDialect(f"{source}: unknown key {min(unknown)!r}", field=min(unknown))
    raw_tags: dict[str, Any] = take(data, "tags", dict)
    templates: dict[str, Any] = take(data, "templates", dict)
    for section, known in ((raw_tags, set(Tag)), (templates, set(_TEMPLATES))):
        odd = set(section) - known
        if odd:
            raise InvalidDialect(f"{source}: unknown key {min(odd)!r}", field=min(odd))
    needed = [tag for tag in Tag if tag not in OPTIONAL_TAGS or tag in raw_tags]
    missing = [tag for tag in needed if not isinstance(raw_tags.get(tag), str)]
    if missing:
        raise InvalidDialect(f"{source}: tags lack {missing[0].value!r}", field="tags")
    if len(set(raw_tags.values())) < len(raw_tags):
        raise InvalidDialect(f"{source}: two tags are spelled alike", field="tags")
    rule = take(data, "rule", str)
    if rule not in {known.value for known in JoinRule}:
        raise InvalidDialect(f"{source}: unknown join rule {rule!r}", field="rule")
    return Dialect(
        name=take(data, "name", str),
        tags={tag: raw_tags[tag] for tag in needed},
        outline_label=take(data, "outline_label", str),
        separator=take(data, "separator", str),
        **{name: take(templates, name, str) for name in _TEMPLATES},
        rule=JoinRule(rule),
        path_offset=take(data, "path_offset", int),
        join_offset=take(data, "join_offset", int),
    )
