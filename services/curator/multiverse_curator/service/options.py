"""What may be asked for when a job is submitted."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field

from multiverse_curator.asking import Terms
from multiverse_curator.checks.content import MAX_DISTANCE
from multiverse_curator.service.teachers import TeacherEntry
from multiverse_shared.dialect import load_dialect
from multiverse_shared.errors import InvalidDialect, InvalidRequest

if TYPE_CHECKING:
    from multiverse_curator.pipeline import Independence, Rules


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def number(self) -> int:
        """Higher goes first."""
        return list(Priority).index(self)


class JobOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    teacher: str = Field("rules", description="name of a teacher of this service")
    name: str = Field("", max_length=200, description="for people; the file's name if left out")
    priority: Priority = Field(Priority.NORMAL, description="jobs of a higher one go first")
    in_flight: int = Field(64, ge=1, le=4096, description="samples at once")
    budget: float | None = Field(None, ge=0, description="money; the job pauses before it is more")
    attempts: int = Field(12, ge=1, le=100, description="of one question")
    first_pause_s: float = Field(1.0, gt=0, le=60, description="before the second; then doubling")
    tries: int = Field(3, ge=1, le=20, description="of a stage whose answer is refused")
    max_output_tokens: int = Field(16384, ge=1, description="of one answer")
    max_distance: float = Field(MAX_DISTANCE, ge=0, le=1, description="of the refilled text")
    max_dependence: float | None = Field(
        None, description="nats per token that a path may gain by its siblings"
    )
    dialect: str = Field("multiverse", max_length=64, description="of the samples made")

    def check(self, teachers: dict[str, TeacherEntry], *, measures: bool) -> Self:
        """InvalidRequest names the field; `measures`: independence can be measured here."""
        if self.teacher not in teachers:
            known = ", ".join(sorted(teachers))
            raise InvalidRequest(
                f"teacher: no {self.teacher!r} here; there are {known}", field="teacher"
            )
        if self.max_dependence is not None and not measures:
            raise InvalidRequest(
                "max_dependence: independence is not measured here; leave it out",
                field="max_dependence",
            )
        try:
            load_dialect(self.dialect)
        except InvalidDialect as error:
            raise InvalidRequest(f"dialect: {error.message}", field="dialect") from None
        return self

    def terms(self, teacher: TeacherEntry) -> Terms:
        return Terms(
            self.max_output_tokens,
            self.attempts,
            self.first_pause_s,
            price=teacher.price,
            budget=self.budget,
        )

    def rules(self, independence: Independence | None) -> Rules:
        from multiverse_curator.pipeline import Rules  # brings algebra, which the API needs not

        return Rules(self.dialect, self.tries, self.max_distance, independence, self.max_dependence)
