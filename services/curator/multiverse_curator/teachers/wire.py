"""What teachers behind a wire have in common: how answers and refusals are told apart.

Retries are not the clients' business here. Must not know any protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from multiverse_curator.teachers.contract import (
    Question,
    Reply,
    Spent,
    TeacherBusy,
    TeacherError,
    TeacherMisconfigured,
    TeacherRefused,
    TeacherTruncated,
    TeacherUnavailable,
)

CALL_HEADER = "x-client-request-id"  # bears the number of the call in the ledger
_REPEATABLE = {408, 409, 425}
_FATAL = {401, 402, 403, 404, 405}


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer as it came. `refusal` says why there is none, if there is none."""

    text: str | None
    spent: Spent
    truncated: bool = False
    refusal: str = ""


class WireTeacher(ABC):
    """A subclass asks its client, and translates the client's errors by `fault`."""

    kind: str

    def __init__(self, model: str) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return f"{self.kind}:{self._model}"

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        heard = await self._hear(question, max_output_tokens)
        if heard.refusal:
            raise TeacherRefused(heard.refusal, heard.spent)
        if heard.truncated:
            raise TeacherTruncated(f"more than {max_output_tokens} tokens", heard.spent)
        if not heard.text:
            raise TeacherRefused("an empty answer", heard.spent)
        return Reply(heard.text, heard.spent)

    @abstractmethod
    async def _hear(self, question: Question, max_output_tokens: int) -> Heard:
        """One call, not repeated. Raises TeacherError."""

    def unreadable(self, error: ValueError) -> TeacherError:
        """The body of the answer is no JSON."""
        return TeacherUnavailable(f"the answer of {self.name} can't be read: {error}")

    def unreachable(self, error: Exception) -> TeacherError:
        """No answer: time-out, broken connection."""
        return TeacherUnavailable(f"{self.name}: {type(error).__name__} {error}")

    def fault(self, status: int, message: str, retry_after_s: float | None = None) -> TeacherError:
        """What a status of HTTP that is no success means for the question."""
        told = f"{self.name}: {status} {message}"
        if status == 429:
            return TeacherBusy(told, retry_after_s)
        if status >= 500 or status in _REPEATABLE:
            return TeacherUnavailable(told)
        if status in _FATAL or "API key" in message:
            return TeacherMisconfigured(told)
        return TeacherRefused(told)
