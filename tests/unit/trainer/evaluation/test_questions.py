"""Benchmarks from files and from the hub, and generated tasks."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from multiverse_trainer.evaluation.benchmarks import LETTERS, benchmark, own_questions
from multiverse_trainer.evaluation.generated import SEED, generated
from multiverse_trainer.evaluation.question import AnswerForm, digest
from multiverse_trainer.tiny.tasks import Family

GPQA = {
    "Question": "Which?",
    "Correct Answer": "this",
    "Incorrect Answer 1": "x",
    "Incorrect Answer 2": "y",
    "Incorrect Answer 3": "z",
}


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("name", ["aime24", "aime25", "math500"])
def test_benchmarks_of_mathematics_ask_for_a_box(name: str, tmp_path: Path) -> None:
    row = {"id": "a/1", "problem": "What is {1}?", "answer": "1", "subject": "Algebra"}
    [question] = benchmark(name, jsonl(tmp_path / "rows.jsonl", row))
    assert question.prompt.endswith("\n\nWhat is {1}?")
    assert "\\boxed{}" in question.prompt
    assert (question.id, question.family, question.answer) == ("a/1", "Algebra", "1")


def test_a_file_may_be_gzipped_or_csv(tmp_path: Path) -> None:
    row = {"id": "1", "problem": "2+2", "answer": "4"}
    zipped = tmp_path / "rows.jsonl.gz"
    with gzip.open(zipped, "wt", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n\n")
    table = tmp_path / "rows.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    assert benchmark("aime24", zipped) == benchmark("aime24", table)


def test_choices_are_shuffled_but_always_alike(tmp_path: Path) -> None:
    rows = [GPQA | {"Record ID": f"r{n}"} for n in range(40)]
    file = jsonl(tmp_path / "gpqa.jsonl", *rows)
    questions = benchmark("gpqa", file)
    assert questions == benchmark("gpqa", file)
    assert {question.answer for question in questions} == set(LETTERS)
    for question in questions:
        assert f"{question.answer}) this" in question.prompt
        assert question.form is AnswerForm.CHOICE


def test_ones_own_file_says_where_answers_stand(tmp_path: Path) -> None:
    row = {"prompt": "sum a:1,?", "answer": "1", "form": "hash", "family": "eval"}
    [question] = own_questions(jsonl(tmp_path / "own.jsonl", row))
    assert (question.form, question.prompt, question.id) == (AnswerForm.HASH, "sum a:1,?", "1")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('{"problem": "x"}', "question 1 has no answer"),
        ('{"answer": "x"}', "question 1 has no problem"),
        ('{"problem": " ", "answer": "1"}', "question 1 has no problem"),
        ('\n{"problem": ', ":2: not JSON"),
        ("[1]", ":1: need an object"),
        ('{"id": 1, "problem": "x", "answer": 1}\n' * 2, "two questions have the id '1'"),
    ],
)
def test_a_file_that_is_not_right_is_refused_with_the_place(
    lines: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(lines, "utf-8")
    with pytest.raises(ValueError, match=told):
        benchmark("math500", file)


def test_without_a_file_the_hub_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def load(repository: str, configuration: str | None, split: str) -> list[dict[str, Any]]:
        asked.append((repository, configuration, split))
        return [GPQA]

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(benchmark("gpqa")) == 1
    assert asked == [("Idavidrein/gpqa", "gpqa_diamond", "train")]


def test_a_hub_that_is_not_reached_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(OSError, match=r"no route.*--data"):
        benchmark("aime25")


def test_generated_tasks_are_always_alike_and_all_different() -> None:
    questions = generated(300)
    assert questions == generated(300)
    assert len({question.prompt for question in questions}) == 300
    assert {question.family for question in questions} == {family.value for family in Family}
    assert questions != generated(300, SEED + 1)
    assert generated(10) == questions[:10]


def test_families_can_be_chosen_or_held_out() -> None:
    assert {q.family for q in generated(20, families=["nested"])} == {"nested"}
    others = {q.family for q in generated(60, but=["nested"])}
    assert others == {family.value for family in Family} - {"nested"}


def test_a_level_can_be_chosen() -> None:
    assert generated(50) == generated(50, level="full")
    sizes = [
        sum(len(question.prompt) for question in generated(50, level=level))
        for level in ("short", "full", "long")
    ]
    assert sizes == sorted(sizes)
    with pytest.raises(ValueError, match=r"'endless'.*full, long"):
        generated(5, level="endless")


@pytest.mark.parametrize(
    ("families", "but", "told"),
    [(["poem"], [], "poem"), ([], ["poem"], "poem"), (["eval"], ["eval"], "left")],
)
def test_families_that_are_not_there_are_refused(
    families: list[str], but: list[str], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        generated(5, families=families, but=but)


def test_a_digest_names_questions_in_their_order() -> None:
    questions = generated(3)
    assert digest(questions) == digest(generated(3))
    assert digest(questions) != digest(questions[::-1])
    assert digest(questions) != digest(questions[:2])
