"""The contract of a teacher.

TeacherError
|- TeacherBusy          ask again, after `retry_after_s` where the teacher names it
|- TeacherUnavailable   ask again: server fault, time-out, broken connection
|- TeacherRefused       this question will not be answered
|- TeacherTruncated     the answer did not fit the tokens that it may have
`- TeacherMisconfigured no question will be answered: key, model name, address

A teacher is a client and no more: how often to ask, how fast and for how much money is decided
by `asking`. `answer` may be awaited many times at once and holds no state between questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from multiverse_curator.answers import Answer
from multiverse_curator.faults import Stage


@dataclass(frozen=True, slots=True)
class Question:
    """What a stage wants to know.

    `data` is the material, `instructions` say what to do with it; the answer is JSON of
    `schema`. `complaint` tells what was wrong with the answer before. `name` tells apart the
    questions of one stage. `call` is the number of this attempt in the ledger: teachers tell it
    to their servers, so that bills can be compared call by call.
    """

    stage: Stage
    name: str
    instructions: str
    data: BaseModel
    schema: type[Answer]
    complaint: str = ""
    call: str = ""

    @property
    def prompt(self) -> str:
        """Instructions, complaint and the material as JSON, last."""
        parts = [self.instructions]
        if self.complaint:
            parts.append(f"Your last answer was refused: {self.complaint}\nMend that.")
        parts.append(f"{MATERIAL}\n{self.data.model_dump_json()}")
        return "\n\n".join(parts)


MATERIAL = "The material, as JSON:"


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens as the teacher bills them; thinking counts as output."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    spent: Spent


class Teacher(Protocol):
    """See the module."""

    @property
    def name(self) -> str:
        """Kind and model: goes into provenance, and into the keys of stored answers."""

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        """The answer as text, unchecked. Raises TeacherError."""

    async def close(self) -> None:
        """Connections are closed."""


class TeacherError(Exception):
    """`spent` is what the attempt is billed, where the teacher says so."""

    def __init__(self, message: str, spent: Spent = Spent()) -> None:
        super().__init__(message)
        self.spent = spent


class TeacherBusy(TeacherError):
    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TeacherUnavailable(TeacherError):
    pass


class TeacherRefused(TeacherError):
    pass


class TeacherTruncated(TeacherError):
    pass


class TeacherMisconfigured(TeacherError):
    pass


def missing(extra: str, error: ImportError) -> TeacherMisconfigured:
    """The library of an extra is not installed."""
    return TeacherMisconfigured(f"{error}; install `multiverse-curator[{extra}]`")
