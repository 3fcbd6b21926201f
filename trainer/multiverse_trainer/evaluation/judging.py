"""Judged answers of one arm, as arrays over questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from multiverse_trainer.evaluation.endpoint import Reply
from multiverse_trainer.evaluation.grading import Grade, grade
from multiverse_trainer.evaluation.question import Question
from multiverse_trainer.evaluation.shape import Shape, ShapeReader
from multiverse_trainer.evaluation.statistics import Values
from multiverse_trainer.evaluation.store import Key, Store


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer. Parallelism is the server's where it says so, else counted in characters."""

    question: Question
    seed: int
    reply: Reply
    grade: Grade
    shape: Shape

    @property
    def malformed(self) -> bool:
        return bool(self.reply.irregular) or self.shape.malformed

    @property
    def critical(self) -> float:
        if self.reply.critical is not None:
            return self.reply.critical
        return self.reply.tokens / self.shape.parallelism

    @property
    def parallelism(self) -> float:
        if self.reply.critical:
            return self.reply.tokens / self.reply.critical
        return self.shape.parallelism


class Judgements:
    """All answers of one arm. Questions without any answer are left out and counted."""

    def __init__(self, arm: str, rows: Sequence[Judged], unanswered: int) -> None:
        self.arm = arm
        self.rows = rows
        self.unanswered = unanswered  # answers that are missing

    @classmethod
    def of(
        cls, arm: str, questions: Sequence[Question], seeds: int, store: Store, reader: ShapeReader
    ) -> Judgements:
        rows: list[Judged] = []
        for question in questions:
            for seed in range(seeds):
                reply = store.get(Key(arm, question.id, seed))
                if reply:
                    judged = grade(question, reply.text)
                    rows.append(Judged(question, seed, reply, judged, reader.shape(reply.text)))
        return cls(arm, rows, len(questions) * seeds - len(rows))

    @cached_property
    def by_question(self) -> dict[str, list[Judged]]:
        out: dict[str, list[Judged]] = defaultdict(list)
        for row in self.rows:
            out[row.question.id].append(row)
        return out

    def values(self, of: Callable[[Judged], float], ids: Sequence[str] = ()) -> Values:
        """[questions] the mean over seeds; of all answered questions unless `ids` are given."""
        return np.array(
            [
                np.mean([float(of(row)) for row in self.by_question[name]])
                for name in ids or self.by_question
            ],
            dtype=np.float64,
        )

    def family(self, name: str) -> Judgements:
        return Judgements(self.arm, [r for r in self.rows if r.question.family == name], 0)

    @property
    def families(self) -> list[str]:
        return sorted({row.question.family for row in self.rows})


def right(row: Judged) -> float:
    return float(row.grade.right)


def common(one: Judgements, other: Judgements) -> list[str]:
    """Questions that both have answered."""
    return [name for name in one.by_question if name in other.by_question]
