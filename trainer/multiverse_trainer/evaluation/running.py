"""One run: questions to an endpoint, answers to a folder, a report beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiverse_trainer.evaluation.asking import Arm, ask_all
from multiverse_trainer.evaluation.drawing import draw_arms
from multiverse_trainer.evaluation.judging import Judgements
from multiverse_trainer.evaluation.question import Question, digest
from multiverse_trainer.evaluation.report import write_report
from multiverse_trainer.evaluation.shape import ShapeReader
from multiverse_trainer.evaluation.store import Store
from multiverse_trainer.evaluation.summary import summary

ANSWERS = "answers.jsonl"


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked of whom. The first arm is the baseline of differences."""

    title: str
    questions: Sequence[Question]
    arms: Sequence[Arm]
    reader: ShapeReader
    seeds: int = 1
    concurrency: int = 8

    @property
    def total(self) -> int:
        """Answers of the whole run."""
        return len(self.arms) * len(self.questions) * self.seeds

    async def into(
        self, folder: Path, served: dict[str, Any], advance: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Ask what `folder` does not hold yet; returns the figures of the report.

        `served` says which models answer: with the questions and the ways it decides whether the
        answers in the folder are of this run. ValueError when they are not.
        """
        settings = {
            **served,
            "arms": [arm.way.fingerprint for arm in self.arms],
            "questions": digest(self.questions),
        }
        with Store(folder / ANSWERS, settings) as store:
            outcome = await ask_all(
                self.arms, self.questions, self.seeds, store, self.concurrency, advance
            )
            judged = [
                Judgements.of(arm.name, self.questions, self.seeds, store, self.reader)
                for arm in self.arms
            ]
        result = summary(judged, outcome, len(self.questions), self.seeds)
        picture = folder / "report.png"
        draw_arms(picture, result["arms"])
        write_report(folder, self.title, {**served, **result}, [picture])
        return result
