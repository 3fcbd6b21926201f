"""`multiverse parse`: recorded outputs read back into their trees, and what they look like."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.tree import Tree

from multiverse_cli.errors import InputError
from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.layout import positions
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.reading import Reading
from multiverse_shared.tree import Block, Context, Text, linearise
from multiverse_shared.usage import usage

PREVIEW = 60


class OutputReader:
    """Reads outputs of one dialect; tokens are characters and tags."""

    def __init__(self, dialect: str) -> None:
        loaded = load_dialect(dialect)
        self._tokenizer = CharacterTokenizer(loaded)
        self._grammar = Grammar.bind(loaded, self._tokenizer)

    def read(self, text: str) -> Reading:
        return read(self._tokenizer.encode_trusted(text), self._grammar, Limits())

    def text(self, reading: Reading) -> str:
        """What the model wrote, in linear order."""
        return self._tokenizer.decode(linearise(reading.context, written=False))

    def token(self, token: int) -> str:
        """How one token is spelled."""
        return self._tokenizer.decode([token])

    def draw(self, reading: Reading) -> Tree:
        """The tree with the positions of its texts."""
        places = iter(positions(reading.context))

        def grow(branch: Tree, context: Context) -> None:
            for item in context:
                if isinstance(item, Text):
                    at = [next(places) for _ in item.ids]
                    label = self._tokenizer.decode(item.ids).strip().replace("\n", " ")
                    branch.add(f"{at[0]}-{at[-1]}  {_short(label)!r}")
                else:
                    block = branch.add(f"block of {len(item.paths)}")
                    for number, path in enumerate(item.paths, 1):
                        grow(block.add(f"path {number}"), path)

        root = Tree("answer")
        grow(root, reading.context)
        return root


@dataclass(slots=True)
class Statistics:
    """Over all outputs of a file; tokens are characters and tags."""

    outputs: int = 0
    clean: int = 0
    with_blocks: int = 0
    blocks: int = 0
    depth: Counter[int] = field(default_factory=Counter)  # of blocks; 1: in the root
    branching: Counter[int] = field(default_factory=Counter)  # paths of a block
    irregular: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    critical: int = 0

    def add(self, reading: Reading) -> None:
        self.outputs += 1
        self.clean += not reading.irregular
        self.irregular.update({str(name): n for name, n in reading.irregular.items()})
        found = list(blocks(reading.context))
        self.with_blocks += bool(found)
        self.blocks += len(found)
        self.depth.update(depth for depth, _ in found)
        self.branching.update(len(block.paths) for _, block in found)
        counts = usage(reading.context)
        self.tokens += counts.generated
        self.critical += counts.critical

    def as_json(self) -> dict[str, Any]:
        return {
            "outputs": self.outputs,
            "clean": self.clean,
            "with_blocks": self.with_blocks,
            "blocks": self.blocks,
            "depth": dict(sorted(self.depth.items())),
            "branching": dict(sorted(self.branching.items())),
            "irregular": dict(self.irregular.most_common()),
            "tokens": self.tokens,
            "critical_path_tokens": self.critical,
            "parallelism": round(self.tokens / self.critical, 4) if self.critical else 1.0,
        }

    def as_table(self) -> Table:
        table = Table(show_header=False)
        for key, value in self.as_json().items():
            if isinstance(value, dict):
                value = ", ".join(f"{name}: {count}" for name, count in value.items()) or "none"
            table.add_row(key.replace("_", " "), str(value))
        return table


def blocks(context: Context, depth: int = 1) -> Iterator[tuple[int, Block]]:
    """Every block with its depth."""
    for item in context:
        if isinstance(item, Block):
            yield depth, item
            for path in item.paths:
                yield from blocks(path, depth + 1)


def read_outputs(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file (gzipped or not); InputError names the line without `output`."""
    rows = []
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row["output"], str):
                    raise TypeError
            except (ValueError, KeyError, TypeError):
                raise InputError(
                    f'{path}:{number}: need an object with a string "output"'
                ) from None
            rows.append(row)
    return rows


def _short(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 10]} … {text[-8:]}"
