"""Reads the tree that is to be drawn: from JSON, or from a row of recorded outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiverse_cli.parse import OutputReader, read_outputs
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Block, Context, Item, JoinRule, Text, linearise


@dataclass(frozen=True, slots=True)
class Source:
    """A tree, and how its tokens are spelled, one label for each in linear order."""

    context: Context
    labels: tuple[str, ...]


def load(path: Path, row: int, dialect: str) -> Source:
    """The tree in `path`; `row` counts from 1, `dialect` is that of recorded outputs.

    `.json` holds one tree or, under `cases`, several; anything else is JSONL (or .gz) with an
    "output" per line, where tokens are characters and tags. InvalidRequest names the place at
    fault.
    """
    if path.suffix == ".json":
        return _from_json(path, row)
    outputs = read_outputs(path)
    reader = OutputReader(dialect)
    context = reader.read(_pick(outputs, row, path)["output"]).context
    return Source(context, tuple(reader.token(token) for token in linearise(context)))


def _from_json(path: Path, row: int) -> Source:
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InvalidRequest(f"{path}: not JSON ({error})", field="file") from None
    if isinstance(data, dict) and "cases" in data:
        data = _pick(data["cases"], row, path)
    else:
        data = _pick([data], row, path)
    context = _Tree(path, data).context()
    return Source(context, tuple(map(str, linearise(context))))


def _pick(rows: Any, row: int, path: Path) -> Any:
    if not isinstance(rows, list) or not 1 <= row <= len(rows):
        size = len(rows) if isinstance(rows, list) else 0
        raise InvalidRequest(f"{path} has {size} rows: --row must be 1 to {size}", field="row")
    return rows[row - 1]


class _Tree:
    """One tree as JSON: `context`, and what holds for all of its blocks."""

    def __init__(self, path: Path, data: Any) -> None:
        self._path = path
        self._data = data if isinstance(data, dict) else {}
        rule = self._data.get("rule", JoinRule.STITCH.value)
        if rule not in [known.value for known in JoinRule]:
            raise self._fault("rule", f"one of {', '.join(JoinRule)}")
        self._rule = JoinRule(rule)
        self._path_offset = self._integer(self._data, "path_offset", "path_offset") or 0
        self._join_offset = self._integer(self._data, "join_offset", "join_offset") or 0

    def context(self) -> Context:
        return self._items(self._data.get("context"), "context", may_be_open=True)

    def _items(self, items: Any, where: str, *, may_be_open: bool) -> Context:
        if not isinstance(items, list):
            raise self._fault(where, "a list of items")
        last = len(items) - 1
        return tuple(
            self._item(item, f"{where}[{n}]", may_be_open=may_be_open and n == last)
            for n, item in enumerate(items)
        )

    def _item(self, item: Any, where: str, *, may_be_open: bool) -> Item:
        match item:
            case {"text": list(ids)} if all(type(token) is int for token in ids):
                return Text(tuple(ids), start=self._integer(item, "start", f"{where}.start"))
            case {"paths": list(paths)}:
                closed = item.get("closed", True)
                if not isinstance(closed, bool) or not (closed or may_be_open):
                    raise self._fault(f"{where}.closed", "true: nothing follows an open block")
                inside = tuple(
                    self._items(path, f"{where}.paths[{n}]", may_be_open=not closed)
                    for n, path in enumerate(paths)
                )
                return Block(inside, self._rule, closed, self._path_offset, self._join_offset)
        raise self._fault(where, 'an object with "text" (token ids) or "paths" (lists of items)')

    def _integer(self, holder: dict[str, Any], key: str, where: str) -> int | None:
        value = holder.get(key)
        if value is not None and type(value) is not int:
            raise self._fault(where, "an integer")
        return value

    def _fault(self, where: str, need: str) -> InvalidRequest:
        return InvalidRequest(f"{self._path}: {where} must be {need}", field=where)
