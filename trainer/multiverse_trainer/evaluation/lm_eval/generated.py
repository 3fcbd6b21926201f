"""What the lm-eval task of the generated tasks asks, and how it judges."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from multiverse_trainer.evaluation.generated import generated
from multiverse_trainer.evaluation.grading import grade
from multiverse_trainer.evaluation.question import AnswerForm, Question
from multiverse_trainer.evaluation.shape import ShapeReader

READER = ShapeReader("multiverse")


def dataset(tasks: int = 500, **_: Any) -> dict[str, Dataset]:
    """`tasks` comes from the metadata of the task, or from `--metadata`."""
    rows = [
        {"id": asked.id, "family": asked.family, "prompt": asked.prompt, "answer": asked.answer}
        for asked in generated(tasks)
    ]
    return {"test": Dataset.from_list(rows)}


def judged(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Whether the first answer is right, and whether it forks."""
    question = Question(row["id"], row["family"], row["prompt"], row["answer"], AnswerForm.HASH)
    return {
        "exact_match": float(grade(question, results[0]).right),
        "activation": float(READER.shape(results[0]).forked),
    }
