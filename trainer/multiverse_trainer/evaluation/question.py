"""A question with its reference answer, and where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum


class AnswerForm(StrEnum):
    """Where an answer stands in a text, and how it is compared."""

    BOXED = "boxed"  # mathematics in the last `\boxed{..}`
    CHOICE = "choice"  # a letter in it
    HASH = "hash"  # characters behind the last `#`: the generated tasks


@dataclass(frozen=True, slots=True)
class Question:
    """`id` is unique in its set; `family` groups questions in reports."""

    id: str
    family: str
    prompt: str
    answer: str
    form: AnswerForm


def digest(questions: Sequence[Question]) -> str:
    """Names a list of questions, in its order."""
    told = json.dumps([astuple(question) for question in questions])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
