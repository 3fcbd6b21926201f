"""What parallel texts look like: the figures of arXiv 2506.09991, table 1.

Of samples (with labels) or of any recorded outputs of a dialect (without).
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from multiverse_curator.sample import JsonTree, tree_from_json
from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock, TextTree
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Block, Context

CURATION = "curation.jsonl"  # beside a data set: what curation found out, a line per row


@dataclass(slots=True)
class Table1:
    texts: int = 0
    parallel: int = 0
    blocks: int = 0
    paths: int = 0
    consecutive: int = 0  # texts with a block after another one at the same level
    recursive: int = 0  # texts with a block inside a path
    labels: Counter[str] = field(default_factory=Counter)
    branching: Counter[int] = field(default_factory=Counter)

    def add(self, blocks: Sequence[Any], labels: Sequence[str] = ()) -> None:
        """One text: its blocks as nested lists, one list of blocks for each path."""
        self.texts += 1
        self.parallel += bool(blocks)
        self.consecutive += _consecutive(blocks)
        self.recursive += any(path for block in blocks for path in block)
        self._count(blocks)
        self.labels.update(labels)

    def _count(self, blocks: Sequence[Any]) -> None:
        for block in blocks:
            self.blocks += 1
            self.paths += len(block)
            self.branching[len(block)] += 1
            for path in block:
                self._count(path)

    def as_json(self) -> dict[str, Any]:
        """Shares are of all texts, but those of consecutive and recursive of the parallel ones."""
        return {
            "texts": self.texts,
            "with_blocks": self.parallel,
            "share_with_blocks": _ratio(self.parallel, self.texts),
            "blocks": self.blocks,
            "blocks_per_text": _ratio(self.blocks, self.texts),
            "branches_per_text": _ratio(self.paths, self.texts),
            "branches_per_block": _ratio(self.paths, self.blocks),
            "share_consecutive": _ratio(self.consecutive, self.parallel),
            "share_recursive": _ratio(self.recursive, self.parallel),
            "collective": self.labels["collective"],
            "selective": self.labels["selective"],
            "unlabelled": self.blocks - sum(self.labels.values()),
            "branching": {str(size): n for size, n in sorted(self.branching.items())},
        }


class _Row(BaseModel):
    """A sample, a recorded output, or what curation found out about a sample."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    tree: JsonTree | None = None
    output: str | None = None
    labels: list[str] = Field(default_factory=list)


def table_of(path: Path, dialect: str) -> Table1:
    """Of a file of samples or of outputs in `dialect`. ValueError names the line at fault.

    Labels are those of a `curation.jsonl` beside the file.
    """
    loaded = load_dialect(dialect)
    tokenizer = CharacterTokenizer(loaded)
    grammar = Grammar.bind(loaded, tokenizer)
    beside = path.with_name(CURATION)
    labels = {row.id: row.labels for row in _rows(beside)} if beside.is_file() else {}
    table = Table1()
    for row in _rows(path):
        if row.tree is not None:
            table.add(shape_of_tree(tree_from_json(row.tree)), labels.get(row.id, ()))
        else:
            ids = tokenizer.encode_trusted(row.output or "")
            table.add(shape_of_context(read(ids, grammar, Limits()).context))
    return table


def _rows(path: Path) -> Iterator[_Row]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _Row.model_validate_json(line)
            except ValidationError:
                row = _Row()
            if row.tree is None and row.output is None and path.name != CURATION:
                raise ValueError(f'{path}:{number}: need an object with "tree" or "output"')
            yield row


def shape_of_tree(tree: TextTree) -> list[Any]:
    """Blocks of a text tree, for `Table1.add`."""
    return [
        [shape_of_tree(path) for path in node.paths] for node in tree if isinstance(node, TextBlock)
    ]


def shape_of_context(context: Context) -> list[Any]:
    """Blocks of a context tree, for `Table1.add`."""
    return [
        [shape_of_context(path) for path in item.paths]
        for item in context
        if isinstance(item, Block)
    ]


def _consecutive(blocks: Sequence[Any]) -> bool:
    return len(blocks) > 1 or any(_consecutive(path) for block in blocks for path in block)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
