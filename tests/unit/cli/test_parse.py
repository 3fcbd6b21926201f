"""`multiverse parse`, as a command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from multiverse_cli.errors import InputError
from multiverse_cli.main import app
from multiverse_cli.parse import read_outputs

OUTPUT = (
    "Hm.\n<Parallel>\n<Goal>\n<Outline>\n1: a\n</Outline>\n<Outline>\n2: b\n</Outline>\n</Goal>\n"
    "<Path>\n1: one\n</Path>\n<Path>\n2: two and more\n</Path>\n"
    "<Conclusion>\nboth\n</Conclusion>\n</Parallel>\nDone </Path> indeed."
)


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    text = "\n".join(json.dumps(row) for row in rows) + "\n"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def test_the_report_counts_blocks_and_what_is_irregular(tmp_path: Path) -> None:
    file = write(tmp_path / "outputs.jsonl.gz", [{"output": OUTPUT}, {"output": "plain"}])
    result = CliRunner().invoke(app, ["parse", str(file), "--json"])
    report = json.loads(result.stdout.splitlines()[-1])
    assert (report["outputs"], report["with_blocks"]) == (2, 1)
    assert report["branching"] == {"2": 1}
    assert report["depth"] == {"1": 1}
    assert report["irregular"] == {"stray_tag": 1}
    assert report["critical_path_tokens"] < report["tokens"]


def test_a_round_trip_writes_every_row_again(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"id": 7, "output": OUTPUT}]
    file, again = write(tmp_path / "outputs.jsonl.gz", rows), tmp_path / "again.jsonl"
    CliRunner().invoke(app, ["parse", str(file), "--roundtrip", str(again)])
    assert [json.loads(line) for line in again.read_text("utf-8").splitlines()] == rows


def test_a_tree_is_drawn_with_positions(tmp_path: Path) -> None:
    file = write(tmp_path / "outputs.jsonl.gz", [{"output": OUTPUT}])
    drawn = CliRunner().invoke(app, ["parse", str(file), "--tree", "1"]).stdout
    assert "block of 2" in drawn
    assert "path 2" in drawn
    assert CliRunner().invoke(app, ["parse", str(file), "--tree", "2"]).exit_code == 2


def test_a_row_without_output_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "outputs.jsonl.gz", [{"output": "x"}, {"text": "y"}])
    with pytest.raises(InputError, match=r"outputs\.jsonl\.gz:2: .*output"):
        read_outputs(file)
