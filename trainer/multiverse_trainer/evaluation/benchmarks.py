"""AIME24, AIME25, MATH500, GPQA and files of one's own, as questions.

A file wins over the hub: JSONL (or .gz) or CSV, in the hub's columns or with `problem` (or
`prompt`) and `answer`.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from multiverse_trainer.evaluation.question import AnswerForm, Question

MATHS = "Solve the following math problem. Put the final answer in \\boxed{{}}.\n\n{problem}"
CHOICE = (
    "Answer the following multiple choice question. The last line of your response should be "
    "\\boxed{{$LETTER}} where LETTER is one of A, B, C, and D.\n\n{problem}"
)
LETTERS = "ABCD"
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a benchmark is on the hub, and how a row of it becomes a question."""

    repository: str
    split: str
    question: Callable[[Row, int], Question]
    configuration: str | None = None


def _maths(row: Row, number: int) -> Question:
    problem = _field(row, number, "problem", "question", "prompt")
    answer = _field(row, number, "answer")
    family = str(row.get("subject") or row.get("family") or "all")
    name = str(row.get("id") or row.get("unique_id") or number)
    return Question(name, family, MATHS.format(problem=problem), answer, AnswerForm.BOXED)


def _choice(row: Row, number: int) -> Question:
    """The order of the choices is drawn by the row's name, so it is always the same."""
    name = str(row.get("Record ID") or row.get("id") or number)
    right = _field(row, number, "Correct Answer")
    choices = [right, *(_field(row, number, f"Incorrect Answer {n}") for n in (1, 2, 3))]
    Random(name).shuffle(choices)
    listed = "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, choices, strict=True))
    problem = f"{_field(row, number, 'Question')}\n\n{listed}"
    family = str(row.get("High-level domain") or "all")
    letter = LETTERS[choices.index(right)]
    return Question(name, family, CHOICE.format(problem=problem), letter, AnswerForm.CHOICE)


def _own(row: Row, number: int) -> Question:
    """A row of one's own file: the prompt as it is; `form` says where answers stand."""
    prompt = _field(row, number, "prompt", "problem", "question")
    form = AnswerForm(row.get("form", AnswerForm.BOXED))
    name, family = str(row.get("id") or number), str(row.get("family") or "all")
    return Question(name, family, prompt, _field(row, number, "answer"), form)


SOURCES = {
    "aime24": Source("HuggingFaceH4/aime_2024", "train", _maths),
    "aime25": Source("math-ai/aime25", "test", _maths),
    "math500": Source("HuggingFaceH4/MATH-500", "test", _maths),
    "gpqa": Source("Idavidrein/gpqa", "train", _choice, "gpqa_diamond"),
}


def benchmark(name: str, file: Path | None = None) -> list[Question]:
    """All questions of a benchmark, from `file` or else from the hub.

    ValueError names the row at fault, or two rows of one id; OSError when the hub is not
    reached, with the remedy.
    """
    source = SOURCES[name]
    rows = read_rows(file) if file else _from_hub(name, source)
    return _questions(rows, source.question)


def own_questions(file: Path) -> list[Question]:
    """Questions of a file with `prompt` and `answer`, perhaps `id`, `family` and `form`."""
    return _questions(read_rows(file), _own)


def read_rows(file: Path) -> list[Row]:
    """Rows of a JSONL or CSV file, gzipped or not."""
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", newline="") as lines:
        if ".csv" in file.suffixes:
            return list(csv.DictReader(lines))
        rows: list[Row] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                rows.append(_json_row(line, f"{file}:{number}"))
        return rows


def _json_row(line: str, place: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place}: need an object")
    return row


def _from_hub(name: str, source: Source) -> Iterable[Row]:
    from datasets import load_dataset

    try:
        found = load_dataset(source.repository, source.configuration, split=source.split)
    except Exception as error:
        # The hub's library raises errors of several libraries; all mean the same to a user.
        raise OSError(
            f"{source.repository} could not be read from the hub ({error}); give a local file: "
            f"--data FILE with the questions of {name}"
        ) from error
    return [dict(row) for row in found]


def _questions(rows: Iterable[Row], make: Callable[[Row, int], Question]) -> list[Question]:
    questions = [make(row, number) for number, row in enumerate(rows, 1)]
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise ValueError(f"two questions have the id {question.id!r}")
        seen.add(question.id)
    return questions


def _field(row: Row, number: int, *names: str) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value).strip()
    raise ValueError(f"question {number} has no {' or '.join(names)}")
