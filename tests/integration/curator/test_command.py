"""`multiverse curate run | export | stats` with the teacher that needs nobody."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from multiverse_cli.errors import InputError
from multiverse_cli.main import app
from multiverse_curator.sample import paths_only, tree_from_json
from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import linearise
from multiverse_trainer.data.record import parse_record
from tests.unit.curator.generated import generated

OUTPUTS = Path(__file__).parents[2] / "data" / "multiverse_outputs.jsonl.gz"
COUNTS_OF_12 = (12, 7, 76)


def call(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, ["curate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    told: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return told


@pytest.fixture
def curated(tmp_path: Path) -> tuple[Path, dict[str, object]]:
    rows = [source.model_dump_json() for source in generated(60, seed=2)]
    rows[3:3] = ["{broken", '{"prompt": "no reasoning"}', "", '{"prompt": "", "reasoning": "x"}']
    (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
    store = tmp_path / "curate.db"
    return store, call("run", str(tmp_path / "in.jsonl"), "--store", str(store))


def test_broken_rows_are_lost_alone(curated: tuple[Path, dict[str, object]]) -> None:
    told = curated[1]
    assert told["broken_rows"] == 3
    assert sum(told["samples"].values()) == 60  # type: ignore[attr-defined]
    assert told["cost"] == 0


def test_exported_trees_are_answers_of_the_dialect_that_the_trainer_takes(
    curated: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    store, told = curated
    card = call("export", str(tmp_path / "out"), "--store", str(store), "--validation", "0.3")
    dialect = load_dialect("multiverse")
    grammar = Grammar.bind(dialect, CharacterTokenizer(dialect))
    originals = {source.key: source for source in generated(60, seed=2)}
    ids = []
    for half in ("train", "validation"):
        lines = (tmp_path / "out" / f"{half}.jsonl").read_text("utf-8").splitlines()
        assert len(lines) == card["rows"][half] > 0  # type: ignore[index]
        for row in map(json.loads, lines):
            ids.append(row["id"])
            assert parse_record(row).text_tree == (tree := tree_from_json(row["tree"]))
            source = originals[row["id"]]
            assert read(linearise(encode(tree, grammar)), grammar, Limits()).irregular == {}
            assert row["reasoning"] == source.reasoning == paths_only(tree)
            assert row["prompt"] == source.prompt
            assert row["answer"] == source.answer
            assert row["provenance"]["teacher"] == "rules"
            assert row["provenance"]["source"].startswith("in.jsonl:")
    assert len(ids) == len(set(ids)) == told["samples"]["converted"]  # type: ignore[index]
    found = (tmp_path / "out" / "curation.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in found] == ids
    assert "share_with_blocks" in (tmp_path / "out" / "README.md").read_text("utf-8")
    train = call("stats", str(tmp_path / "out" / "train.jsonl"), "--json")
    assert train["unlabelled"] == 0
    assert train["share_with_blocks"] == 1


def test_parquet_holds_the_same_rows(
    curated: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    store = str(curated[0])
    call("export", str(tmp_path / "a"), "--store", store)
    call("export", str(tmp_path / "b"), "--store", store, "--format", "parquet")
    rows = parquet.read_table(tmp_path / "b" / "train.parquet").to_pylist()
    for row in rows:
        row |= {key: json.loads(row[key]) for key in ("tree", "provenance")}
    lines = (tmp_path / "a" / "train.jsonl").read_text("utf-8").splitlines()
    assert rows == [json.loads(line) for line in lines]


def test_a_larger_data_set_keeps_the_split_of_a_smaller_one(tmp_path: Path) -> None:
    halves = []
    for count in (20, 40):
        rows = [source.model_dump_json() for source in generated(count, seed=4)]
        (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
        store = str(tmp_path / f"{count}.db")
        call("run", str(tmp_path / "in.jsonl"), "--store", store)
        call("export", str(tmp_path / str(count)), "--store", store, "--validation", "0.5")
        lines = (tmp_path / str(count) / "validation.jsonl").read_text("utf-8").splitlines()
        halves.append({json.loads(line)["id"] for line in lines})
    assert halves[0]
    assert halves[0] < halves[1]


def test_stats_counts_the_blocks_of_recorded_outputs(tmp_path: Path) -> None:
    with gzip.open(OUTPUTS, "rt", encoding="utf-8") as file:
        (tmp_path / "outputs.jsonl").write_text("".join(islice(file, 12)), "utf-8")
    told = call("stats", str(tmp_path / "outputs.jsonl"), "--json")
    assert (told["texts"], told["with_blocks"], told["blocks"]) == COUNTS_OF_12
    assert told["unlabelled"] == told["blocks"]


def test_stats_names_the_line_at_fault(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"output": "a"}\n{"put": 1}\n', "utf-8")
    with pytest.raises(InputError, match=r"x.jsonl:2: need an object"):
        CliRunner().invoke(
            app, ["curate", "stats", str(tmp_path / "x.jsonl")], catch_exceptions=False
        )


def test_a_teacher_without_a_model_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a model name"):
        CliRunner().invoke(
            app,
            ["curate", "run", "--store", str(tmp_path / "x.db"), "--teacher", "gemini"],
            catch_exceptions=False,
        )
