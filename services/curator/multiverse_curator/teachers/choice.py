"""A teacher by its name and options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from multiverse_curator.teachers.contract import Teacher, TeacherMisconfigured
from multiverse_curator.teachers.gemini import GeminiTeacher
from multiverse_curator.teachers.openai import OpenAITeacher
from multiverse_curator.teachers.rules import RulesTeacher


class TeacherKind(StrEnum):
    RULES = "rules"
    OPENAI = "openai"
    GEMINI = "gemini"


@dataclass(frozen=True, slots=True)
class TeacherChoice:
    """Keys that are not given come from the environment, as the clients have it."""

    kind: TeacherKind = TeacherKind.RULES
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout_s: float = 300.0
    structured: bool = True  # openai: the endpoint knows JSON schemas
    thinking_budget: int | None = None  # gemini: tokens

    def make(self) -> Teacher:
        """TeacherMisconfigured names what is missing."""
        if self.kind is TeacherKind.RULES:
            return RulesTeacher()
        if not self.model:
            raise TeacherMisconfigured(f"teacher {self.kind.value} needs a model name")
        if self.kind is TeacherKind.OPENAI:
            return OpenAITeacher(
                self.model,
                base_url=self.base_url,
                api_key=self.api_key,
                timeout_s=self.timeout_s,
                structured=self.structured,
            )
        return GeminiTeacher(
            self.model,
            base_url=self.base_url,
            api_key=self.api_key,
            timeout_s=self.timeout_s,
            thinking_budget=self.thinking_budget,
        )
