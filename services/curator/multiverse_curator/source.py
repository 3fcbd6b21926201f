"""What comes in: a question, a chain of thought, and its answer where it is known.

Broken rows are lost alone, each with its line number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Source(BaseModel):
    """One chain of thought. `answer` None: the one that the reasoning ends with."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field("", max_length=200)
    prompt: str = Field(min_length=1)
    reasoning: str
    answer: str | None = None
    licence: str = ""
    origin: str = Field("given", description="where the row stood: file and line")

    @property
    def key(self) -> str:
        """The given id, else one made of the content."""
        if self.id:
            return self.id
        content = json.dumps([self.prompt, self.reasoning, self.answer])
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def read_sources(path: Path, broken: Callable[[int, str], None]) -> Iterator[Source]:
    """Rows of a JSONL file (or .gz) one by one; `broken(line, reason)` hears of the others."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                source = Source.model_validate_json(line)
            except ValidationError as error:
                broken(number, _reason(error))
                continue
            yield source.model_copy(update={"origin": f"{path.name}:{number}"})


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else str(first["msg"])
