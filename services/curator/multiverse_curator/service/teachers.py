"""The teachers that jobs may name: what the operator set up, with keys and limits.

Jobs name a teacher and nothing more, so no client can send keys or choose addresses.

    [pro]
    kind = "gemini"            # or openai, rules
    model = "gemini-2.5-pro"
    api_key_env = "GEMINI_API_KEY"
    requests_per_minute = 300
    price_input = 1.25         # per million tokens
    price_output = 10.0
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from multiverse_curator.asking import Price
from multiverse_curator.teachers.choice import TeacherChoice, TeacherKind
from multiverse_curator.teachers.contract import Teacher, TeacherMisconfigured
from multiverse_shared.errors import InvalidRequest


class TeacherEntry(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: TeacherKind
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = Field(None, description="environment variable with the key")
    timeout_s: float = Field(300.0, gt=0)
    structured: bool = True
    thinking_budget: int | None = None
    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)
    price_input: float = Field(0.0, ge=0)
    price_output: float = Field(0.0, ge=0)

    @property
    def price(self) -> Price:
        return Price(self.price_input, self.price_output)

    def make(self) -> Teacher:
        """TeacherMisconfigured names what is missing."""
        key = os.environ.get(self.api_key_env) if self.api_key_env else None
        if self.api_key_env and not key:
            raise TeacherMisconfigured(f"{self.api_key_env} is not set in the worker")
        return TeacherChoice(
            self.kind,
            self.model,
            self.base_url,
            api_key=key,
            timeout_s=self.timeout_s,
            structured=self.structured,
            thinking_budget=self.thinking_budget,
        ).make()


RULES = TeacherEntry(kind=TeacherKind.RULES)


def read_teachers(path: Path | None) -> dict[str, TeacherEntry]:
    """By name; `rules` is always there. InvalidRequest names table and field."""
    entries = {"rules": RULES}
    if path is None:
        return entries
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: {error}", field="teachers_file") from None
    for name, table in tables.items():
        try:
            entries[name] = TeacherEntry.model_validate(table)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join([name, *map(str, first["loc"])])
            raise InvalidRequest(
                f"{path}: {where}: {first['msg']}", field="teachers_file"
            ) from None
    return entries
