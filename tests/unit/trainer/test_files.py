"""Files of records: every row is either a record or a reject with its id and the reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from multiverse_shared.errors import InvalidRequest
from multiverse_trainer.data.files import Reject, read_records
from multiverse_trainer.data.record import Record
from tests.unit.trainer.rows import row, write_rows


def read(tmp_path: Path, *files: Path) -> list[Record | Reject]:
    return list(read_records(files, tmp_path / "cache"))


def test_rows_come_in_order_from_plain_and_packed_lines(tmp_path: Path) -> None:
    plain = write_rows(tmp_path / "a.jsonl", [row(id="1"), row(id="2")])
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(row(id="3")).encode()))
    assert [record.id for record in read(tmp_path, plain, packed)] == ["1", "2", "3"]


def test_parquet_holds_the_tree_as_json(tmp_path: Path) -> None:
    flat = [
        {**row(id=name), "tree": json.dumps(row()["tree"]), "markup": None} for name in ("p", "q")
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat), tmp_path / "a.parquet")
    found = read(tmp_path, tmp_path / "a.parquet")
    assert [type(record) for record in found] == [Record, Record]
    assert found[0] == next(iter(read(tmp_path, write_rows(tmp_path / "a.jsonl", [row(id="p")]))))


def test_what_is_broken_is_rejected_by_id_and_reason_and_reading_goes_on(tmp_path: Path) -> None:
    lines: list[tuple[bytes, str, str]] = [
        (b'{"id": "cut', "", "not JSON"),
        (b"[1]", "", "no object"),
        (b'{"id": "bad \xff\xfe"}', "bad", "UTF-8"),
        (dumps(row(id="a", answer=None)), "a", "answer: Field required"),
        (dumps(row(id="b", extra=1)), "b", "extra"),
        (dumps(row(id="c", tree=["only text"])), "c", "no block"),
        (dumps(row(id="d", markup="<Parallel>")), "d", "only one of them"),
        (dumps(row(id="e", tree=[{"outlines": ["x"], "paths": [], "conclusion": []}])), "e", "as"),
        (dumps(row(id="f", prompt="")), "f", "prompt"),
        (dumps(row(id="good")), "good", "another row"),
        (b'{"id": "deep", "tree": ' + b"[" * 20000 + b"]" * 20000 + b"}", "", "JSON"),
        (b"", "", "not JSON"),
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([dumps(row(id="good")), *(line for line, _, _ in lines), b""]))
    first, *rest = read(tmp_path, path)
    assert isinstance(first, Record)
    assert len(rest) == len(lines)
    for number, (found, (_, name, reason)) in enumerate(zip(rest, lines, strict=True), 2):
        assert isinstance(found, Reject)
        assert found.row == number
        assert found.id.startswith(name)
        assert reason in found.reason


def dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"x", "neither"),
        ("a.jsonl", b"", "empty"),
        ("a.parquet", b"no parquet at all", "cannot be read"),
        ("gone.jsonl", None, "no data file"),
    ],
)
def test_a_file_that_is_no_data_is_named(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidRequest, match=said):
        read(tmp_path, tmp_path / name)
