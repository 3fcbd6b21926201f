"""One row of training data, checked: a question with its answer in both renderings.

Knows the schema (docs/data.md). Must not know tokens or files.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from multiverse_shared.encode import TextBlock, TextTree
from multiverse_shared.errors import InvalidRequest

Filled = Annotated[str, StringConstraints(min_length=1)]
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class BlockRecord(BaseModel):
    """A plan with its paths; `outlines[i]` belongs to `paths[i]`."""

    model_config = _STRICT
    outlines: list[str]
    paths: list[list[str | BlockRecord]]
    conclusion: list[str | BlockRecord]

    @model_validator(mode="after")
    def _paired(self) -> BlockRecord:
        if not self.outlines or len(self.outlines) != len(self.paths):
            raise ValueError("a block needs as many outlines as paths, and at least one")
        return self


class Provenance(BaseModel):
    """Where a record comes from."""

    model_config = _STRICT
    source: Filled  # data set or generator, with its version
    teacher: str = ""  # model that wrote the reasoning or the tree
    licence: str = ""


class Record(BaseModel):
    """A row. The reasoning has two renderings: `reasoning`, and `tree` or `markup`."""

    model_config = _STRICT
    id: Filled
    prompt: Filled
    reasoning: Filled  # sequential
    tree: list[str | BlockRecord] | None = None
    markup: Filled | None = None  # the same as text with the dialect's tags
    answer: Filled
    dialect: Filled
    provenance: Provenance

    @model_validator(mode="after")
    def _one_tree(self) -> Record:
        if (self.tree is None) == (self.markup is None):
            raise ValueError("give tree or markup, and only one of them")
        if self.tree is not None and not any(isinstance(n, BlockRecord) for n in self.tree):
            raise ValueError("the tree has no block: nothing in it is parallel")
        return self

    @property
    def text_tree(self) -> TextTree:
        """The tree; empty where the record has markup."""
        return _nodes(self.tree or [])


def parse_record(row: dict[str, Any]) -> Record:
    """InvalidRequest names the first field at fault.

    Columns cannot hold nested trees, so `tree` and `provenance` may be JSON in a string.
    """
    row = {key: value for key, value in row.items() if value is not None}
    for key in ("tree", "provenance"):
        if isinstance(row.get(key), str):
            row[key] = _json(row[key], key)
    try:
        return Record.model_validate(row)
    except ValidationError as error:
        # Where a node may be a text or a block, what is wrong with the block says more.
        faults = error.errors()
        first = next((fault for fault in faults if fault["loc"][-1:] != ("str",)), faults[0])
        field = ".".join(str(part) for part in first["loc"] if part != "BlockRecord") or "tree"
        raise InvalidRequest(f"{field}: {first['msg']}", field=field) from None
    except RecursionError:
        raise InvalidRequest("tree: nested too deep", field="tree") from None


def _json(text: str, field: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field}: not JSON: {error}", field=field) from None


def _nodes(nodes: list[str | BlockRecord]) -> TextTree:
    return tuple(
        node
        if isinstance(node, str)
        else TextBlock(
            tuple(node.outlines), tuple(map(_nodes, node.paths)), _nodes(node.conclusion)
        )
        for node in nodes
    )
