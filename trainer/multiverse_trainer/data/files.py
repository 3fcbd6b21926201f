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
        for number, (row, broken) in enumerate(_rows(file, cache), 1):
            name = str(row.get("id") or "") if isinstance(row, dict) else ""
            try:
                record = _checked(row, broken, seen)
            except InvalidRequest as error:
                yield Reject(file.name, number, name, error.message)
            else:
                seen.add(record.id)
                yield record


def _rows(file: Path, cache: Path) -> Iterator[tuple[Any, bool]]:
    """The rows, and whether bytes of a row had to be replaced."""
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
    except (datasets.exceptions.DatasetsError, ValueError) as error:  # pyarrow's are ValueErrors
        raise InvalidRequest(
            f"{file} cannot be read as {kind}: {error.__cause__ or error}", field="data"
        ) from None
    for row in table:
        line = row["text"] if kind == "text" else ""
        yield (_parsed(line) if kind == "text" else row), _REPLACED in line


def _parsed(line: str) -> Any:
    """The value of a line; the line itself where it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def _checked(row: Any, broken: bool, seen: set[str]) -> Record:
    if broken:
        raise InvalidRequest("the line is not UTF-8")
    if isinstance(row, str):
        raise InvalidRequest("the line is not JSON")
    if not isinstance(row, dict):
        raise InvalidRequest("the line is JSON, but no object")
    record = parse_record(row)
    if record.id in seen:
        raise InvalidRequest(f"id: another row has the id {record.id!r}", field="id")
    return record
