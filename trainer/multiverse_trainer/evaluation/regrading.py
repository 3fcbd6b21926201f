"""Grades recorded outputs again, against the answers of benchmark files.

An output belongs to the question whose problem its prompt contains, whatever ids the two have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multiverse_trainer.evaluation.benchmarks import Row
from multiverse_trainer.evaluation.grading import Grade, grade
from multiverse_trainer.evaluation.question import AnswerForm, Question
from multiverse_trainer.evaluation.statistics import mean


def regrade(outputs: Sequence[Row], references: Sequence[Row]) -> dict[str, Any]:
    """Figures by set (what stands before the `/` of an id), and over all.

    outputs: rows with `id`, `prompt`, `output`; references: rows with `problem` and `answer`.
    ValueError names the output that lacks a field.
    """
    answers = {_plain(str(row["problem"])): str(row["answer"]) for row in references}
    grades: dict[str, list[Grade | None]] = {}
    for number, row in enumerate(outputs, 1):
        for name in ("id", "prompt", "output"):
            if not isinstance(row.get(name), str):
                raise ValueError(f"output {number} has no {name}")
        answer = _reference(row["prompt"], answers)
        question = Question(row["id"], "", row["prompt"], answer or "", AnswerForm.BOXED)
        found = grade(question, row["output"]) if answer is not None else None
        grades.setdefault(row["id"].partition("/")[0], []).append(found)
    everything = [found for some in grades.values() for found in some]
    return {
        **{name: _figures(some) for name, some in sorted(grades.items())},
        "all": _figures(everything),
    }


def _reference(prompt: str, answers: Mapping[str, str]) -> str | None:
    plain = _plain(prompt)
    return next((answer for problem, answer in answers.items() if problem in plain), None)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _figures(grades: Sequence[Grade | None]) -> dict[str, Any]:
    graded = [found for found in grades if found]
    out: dict[str, Any] = {
        "outputs": len(grades),
        "without_reference": len(grades) - len(graded),
        "right": sum(found.right for found in graded),
        "wrong": sum(not found.right and found.given is not None for found in graded),
        "no_answer": sum(found.given is None for found in graded),
    }
    if graded:
        out["pass_at_1"] = mean(np.array([float(found.right) for found in graded])).as_json()
    return out
