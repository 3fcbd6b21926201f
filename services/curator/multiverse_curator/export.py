"""Converted samples as a dataset: JSONL or Parquet, split, with its card.

Rows keep the order of the store; a sample's half of the split depends on its id alone, so a
larger dataset keeps the split of a smaller one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from multiverse_curator.sample import tree_from_json
from multiverse_curator.store import Store
from multiverse_curator.table1 import CURATION, Table1, shape_of_tree
from multiverse_curator.teachers.contract import missing

PAGE = 500  # rows of a Parquet row group


class Format(StrEnum):
    JSONL = "jsonl"
    PARQUET = "parquet"


def export(store: Store, folder: Path, format: Format, validation: float) -> dict[str, Any]:
    """Writes `train`, `validation`, their `curation` and a card; returns what the card counts.

    `validation` is the share of the second half. Samples without a known answer can't be
    evaluated, and stay out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table, counts, parallelism = Table1(), Counter[str](), list[float]()
    with (folder / CURATION).open("w", encoding="utf-8") as curation:

        def rows(half: str) -> Iterator[dict[str, Any]]:
            for row in store.results():
                if half_of(row["id"], validation) != half:
                    continue
                if not row["answer"]:
                    counts["without_answer"] += 1
                    continue
                counts[half] += 1
                found = row.pop("curation")
                table.add(shape_of_tree(tree_from_json(row["tree"])), found["labels"])
                parallelism.append(found["parallelism"])
                curation.write(json.dumps({"id": row["id"], **found}) + "\n")
                yield row

        for half in ("train", "validation"):
            _WRITERS[format](folder / f"{half}.{format.value}", rows(half))
    card = {
        "rows": dict(counts),
        "mean_parallelism": round(sum(parallelism) / max(1, len(parallelism)), 4),
        "table1": table.as_json(),
        "store": store.counts(),
    }
    (folder / "README.md").write_text(_card(card, format), "utf-8")
    return card


def half_of(sample_id: str, validation: float) -> str:
    drawn = int.from_bytes(hashlib.sha256(sample_id.encode()).digest()[:8]) / 2**64
    return "validation" if drawn < validation else "train"


def _write_jsonl(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """`tree` and `provenance` as JSON text: a tree is recursive, which Parquet types are not."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise missing("parquet", error) from None
    names = ("id", "prompt", "reasoning", "tree", "answer", "dialect", "provenance")
    schema = arrow.schema([(name, arrow.string()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        page: list[dict[str, Any]] = []

        def flush() -> None:
            writer.write_table(arrow.Table.from_pylist(page, schema))
            page.clear()

        for row in rows:
            nested = {
                key: json.dumps(row[key], ensure_ascii=False) for key in ("tree", "provenance")
            }
            page.append({**row, **nested})
            if len(page) == PAGE:
                flush()
        if page:
            flush()


_WRITERS: dict[Format, Callable[[Path, Iterator[dict[str, Any]]], None]] = {
    Format.JSONL: _write_jsonl,
    Format.PARQUET: _write_parquet,
}


def _card(card: dict[str, Any], format: Format) -> str:
    lines = ["# Parallel reasoning data", ""]
    lines += ["Chains of thought as trees of parallel paths, each with its sequential twin.", ""]
    lines += ["| field | |", "| --- | --- |"]
    lines += [f"| `{name}` | {what} |" for name, what in _FIELDS.items()]
    lines += ["", f"`{CURATION}` has for each id: labels, tries, distances, independence."]
    if format is Format.PARQUET:
        lines += ["", "`tree` and `provenance` are JSON text."]
    for title, counts in card.items():
        values = counts if isinstance(counts, dict) else {title: counts}
        lines += ["", f"## {title}", "", "| | |", "| --- | --- |"]
        for name, value in values.items():
            shown = json.dumps(value) if isinstance(value, dict) else value
            lines.append(f"| {name} | {shown} |")
    return "\n".join(lines) + "\n"


_FIELDS = {
    "id": "of the source row, or made of its content",
    "prompt": "the question",
    "reasoning": "the chain of thought as it came",
    "tree": "texts and blocks of outlines, paths and conclusion",
    "answer": "the final answer",
    "dialect": "the tags that the tree is to be written with",
    "provenance": "source (file and line), teacher, licence",
}
