"""What comes in: a question, a chain of thought, and its answer where it is known.

Broken rows are lost alone, each with its line number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST_BYTES = 16 << 20  # of a row


class Source(BaseModel):
    """One chain of thought. `answer` None: the one that the reasoning ends with."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field("", max_length=200, pattern=r"^[^\x00]*$")
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


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that is no sample."""

    file: str
    line: int
    reason: str


def read_sources(path: Path, broken: Callable[[int, str], None]) -> Iterator[Source]:
    """Samples of a JSONL file (or .gz) one by one; `broken(line, reason)` hears of other rows."""
    with path.open("rb") as file:
        for row in rows(file, path.name):
            if isinstance(row, Source):
                yield row
            else:
                broken(row.line, row.reason)


def rows(file: BinaryIO, name: str) -> Iterator[Source | Broken]:
    """Of an open JSONL file, which is unpacked if its name ends in .gz."""
    packed = name.endswith(".gz")
    lines: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file
    number = 0
    while True:
        number += 1
        try:
            line = lines.readline(MOST_BYTES)
            if len(line) == MOST_BYTES and not line.endswith(b"\n"):
                while rest := lines.readline(MOST_BYTES):
                    if rest.endswith(b"\n"):
                        break
                yield Broken(name, number, f"longer than {MOST_BYTES >> 20} MiB")
                continue
        except (OSError, EOFError, zlib.error) as error:
            yield Broken(name, number, f"can't be unpacked: {error}")
            return
        if not line:
            return
        if not line.strip():
            continue
        try:
            source = Source.model_validate_json(line)
        except ValidationError as error:
            yield Broken(name, number, _reason(error))
            continue
        yield source.model_copy(update={"origin": f"{name}:{number}"})


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else str(first["msg"])
