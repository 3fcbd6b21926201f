"""Whether a text answers its question. What the prompt says itself is no answer.

The answer is the last one in the model's own text: earlier boxes are intermediate results or
taken back. A server may echo the prompt, and models quote their instructions ("the last line
should be `\\boxed{$LETTER}`"); a grader that reads the first box takes those for answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from multiverse_shared.answer import boxed_answers, same_answer
from multiverse_trainer.evaluation.question import AnswerForm, Question

_PLACEHOLDER = re.compile(r"[^\w]*[A-Za-z ]{2,}[^\w]*|[.… ]*")
_LETTER = re.compile(r"\W*(?:\\(?:text|mathrm|textbf|mathbf)\s*\{)?\W*([A-Za-z])(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class Grade:
    """`given` is None when the text has no answer."""

    right: bool
    given: str | None


def grade(question: Question, text: str) -> Grade:
    """Judge the model's text; the prompt may stand in it."""
    own = own_text(question.prompt, text)
    if question.form is AnswerForm.HASH:
        _, mark, given = own.rpartition("#")
        return (
            Grade(given.strip() == question.answer, given.strip()) if mark else Grade(False, None)
        )
    boxed = boxed_answers(own)
    asked = {box for box in boxed_answers(question.prompt) if _PLACEHOLDER.fullmatch(box)}
    answers = [box for box in boxed if box and box not in asked]
    if not answers:
        return Grade(False, None)
    given = answers[-1]
    if question.form is AnswerForm.CHOICE:
        letter = _LETTER.match(given)
        chosen = letter[1].upper() if letter else None
        return Grade(chosen == question.answer, chosen or given)
    return Grade(same_answer(question.answer, given), given)


def own_text(prompt: str, text: str) -> str:
    """`text` without an echo of the prompt, whatever its spaces, as far as it is word for word."""
    words = prompt.split()
    if not words:
        return text
    echo = re.compile(r"\s+".join(map(re.escape, words)))
    return echo.sub("", text)
