"""Files of records, read with `datasets`: JSONL (also .gz) and Parquet.

A row that cannot be used becomes a `Reject` with its id and the reason; reading goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from multiverse_shared.errors import InvalidRequest
from multiverse_trainer.data.record import Record, parse_record

_BUILDERS = {".jsonl": "text", ".parquet": "parquet"}
_REPLACED = "�"  # what stands for bytes that are no UTF-8


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that training leaves out."""

    file: str
    row: int  # from 1
    id: str  # empty where the row has none
    reason: str


def read_records(files: Sequence[Path], cache: Path) -> Iterator[Record | Reject]:
    """Every row of the files, in order. InvalidRequest for a file that is missing or no data.

    `cache` is a folder for the memory-mapped copy that `datasets` makes.
    """
    seen: set[str] = set()
    for file in files:
        for number, row in enumerate(_rows(file, cache), 1):
            name = str(row.get("id") or "") if isinstance(row, dict) else ""
            try:
                record = _checked(row, seen)
            except InvalidRequest as error:
                yield Reject(file.name, number, name, error.message)
            else:
                seen.add(record.id)
                yield record


def _rows(file: Path, cache: Path) -> Iterator[Any]:
    kind = _BUILDERS.get(file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix)
    if kind is None:
        raise InvalidRequest(f"{file} is neither .jsonl, .jsonl.gz nor .parquet", field="data")
    if not file.is_file():
        raise InvalidRequest(f"there is no data file {file}", field="data")
    if not file.stat().st_size:
        raise InvalidRequest(f"data file {file} is empty", field="data")
    options = {"encoding_errors": "replace"} if kind == "text" else {}
    try:
        table = datasets.load_dataset(
            kind, data_files=str(file), split="train", cache_dir=str(cache), **options
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise InvalidRequest(
            f"{file} cannot be read as {kind}: {error.__cause__ or error}", field="data"
        ) from None
    for row in table:
        yield _parsed(row["text"]) if kind == "text" else row


def _parsed(line: str) -> Any:
    """The value of a line; the line itself where it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def _checked(row: Any, seen: set[str]) -> Record:
    if isinstance(row, str):
        broken = "not UTF-8" if _REPLACED in row else "not JSON"
        raise InvalidRequest(f"the line is {broken}")
    if not isinstance(row, dict):
        raise InvalidRequest("the line is JSON, but no object")
    record = parse_record(row)
    if _REPLACED in record.model_dump_json():
        raise InvalidRequest("a text is not UTF-8")
    if record.id in seen:
        raise InvalidRequest(f"id: another row has the id {record.id!r}", field="id")
    return record
