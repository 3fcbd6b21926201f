"""Records and sample sets to test with: generated tasks and the tiny model's vocabulary."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Renderer, Rendering
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.vocabulary import TrainingVocabulary
from multiverse_trainer.tiny.records import records

TINY = Path(__file__).parents[3] / "models" / "multiverse-tiny"


def row(**changes: Any) -> dict[str, Any]:
    """A record with one block."""
    block = {"outlines": ["a", "b"], "paths": [["a:1=1"], ["b:2=2"]], "conclusion": ["sum"]}
    good = {
        "id": "one",
        "prompt": "sum a:1,b:2,?",
        "reasoning": "a:1=1;b:2=2;sum",
        "tree": ["max", block, "min"],
        "answer": "#3",
        "dialect": "multiverse",
        "provenance": {"source": "hand"},
    }
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@cache
def vocabulary(dialect: str = "multiverse") -> TrainingVocabulary:
    return TrainingVocabulary.load(TINY, dialect)


@cache
def renderer(dialect: str = "multiverse") -> Renderer:
    made = vocabulary(dialect)
    return Renderer(made.grammar, made.frame(" in parallel", ""))


def samples(
    rows: list[dict[str, Any]], max_tokens: int = 2048, rendering: str = "parallel"
) -> SampleSet:
    dialect = rows[0]["dialect"]
    made = SampleSet(renderer(dialect), Rendering(rendering), max_tokens)
    made.read(parse_record(row) for row in rows)
    return made


def generated(count: int, seed: int = 5) -> list[dict[str, Any]]:
    return list(records(seed, count))
