"""Dialect files: what ships, and what is said about one that breaks the schema."""

from __future__ import annotations

import copy
import json
from importlib import resources
from typing import Any

import pytest

from multiverse_shared.dialect import Tag, load_dialect, parse_dialect
from multiverse_shared.errors import InvalidDialect
from multiverse_shared.tree import JoinRule

_FOLDER = resources.files("multiverse_shared") / "dialects"
PROMISES = (Tag.PROMISE_OPEN, Tag.PROMISE_CLOSE, Tag.SYNC)
VALID: dict[str, Any] = json.loads((_FOLDER / "multiverse.json").read_text("utf-8"))


def changed(*path: str, to: Any) -> dict[str, Any]:
    """The valid dialect with the value at `path` set `to`, or removed if that is None."""
    data = copy.deepcopy(VALID)
    *way, key = path
    inner = data
    for step in way:
        inner = inner[step]
    if to is None:
        del inner[key]
    else:
        inner[key] = to
    return data


def refusal(data: dict[str, Any]) -> InvalidDialect:
    with pytest.raises(InvalidDialect) as caught:
        parse_dialect(data, "some/file.json")
    return caught.value


def test_the_multiverse_dialect_is_as_the_paper_spells_it() -> None:
    dialect = load_dialect("multiverse")
    assert dialect.name == "multiverse"
    assert dialect.rule is JoinRule.STITCH
    assert list(dialect.tags) == [tag for tag in Tag if tag not in PROMISES]
    assert [dialect.tags[tag] for tag in (Tag.BLOCK_OPEN, Tag.PLAN_OPEN, Tag.PATH_CLOSE)] == [
        "<Parallel>",
        "<Goal>",
        "</Path>",
    ]
    assert dialect.path_header == "<Path>{label}:"
    assert (dialect.path_offset, dialect.join_offset) == (0, 0)


def test_an_unknown_dialect_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(InvalidDialect) as caught:
        load_dialect("multivers")
    assert "'multivers'" in caught.value.message
    for entry in _FOLDER.iterdir():
        assert entry.name.removesuffix(".json") in caught.value.message
    assert caught.value.field == "dialect"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("name",), None, "name"),
        (("name",), 3, "name"),
        (("parent_waits",), None, "parent_waits"),
        (("parent_waits",), 1, "parent_waits"),
        (("tags",), [], "tags"),
        (("tags", "sync"), "<sync/>", "sync"),
        (("tags", "path_open"), "", "path_open"),
        (("tags", "path_close"), None, "path_close"),
        (("tags", "join_open"), 7, "join_open"),
        (("outline_label",), None, "outline_label"),
        (("templates",), "x", "templates"),
        (("templates", "after_plan"), None, "after_plan"),
        (("templates", "path_header"), 1, "path_header"),
        (("templates", "path_tail"), ["x"], "path_tail"),
        (("templates", "join_header"), None, "join_header"),
        (("rule",), 1, "rule"),
        (("rule",), "stich", "stich"),
        (("rule",), "reserve", "reserve"),
        (("path_offset",), "0", "path_offset"),
        (("path_offset",), True, "path_offset"),
        (("join_offset",), 0.5, "join_offset"),
        (("ofset",), 1, "ofset"),
    ],
)
def test_a_fault_is_reported_with_the_file_and_the_key(
    path: tuple[str, ...], value: Any, named: str
) -> None:
    error = refusal(changed(*path, to=value))
    assert "some/file.json" in error.message
    assert repr(named) in error.message
    assert error.field in {*path, named}


@pytest.mark.parametrize("section", ["tags", "templates"])
def test_a_mistyped_key_is_refused_in_every_section(section: str) -> None:
    error = refusal(changed(section, "join_haeder", to="x"))
    assert "some/file.json" in error.message
    assert "'join_haeder'" in error.message


def test_two_tags_that_are_spelled_alike_are_refused() -> None:
    error = refusal(changed("tags", "path_open", to="<Goal>"))
    assert "some/file.json" in error.message
    assert "alike" in error.message
    assert error.field == "tags"


def test_a_dialect_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        load_dialect("multiverse").rule = JoinRule.STITCH  # type: ignore[misc]
