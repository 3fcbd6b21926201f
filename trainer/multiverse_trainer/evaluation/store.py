"""Answers on disk, one JSON line each, so that a run that was stopped goes on.

The first line says what was asked; a run with other settings is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from multiverse_trainer.evaluation.endpoint import Reply

_SHOWN = 200  # characters of a setting in an error


@dataclass(frozen=True, slots=True)
class Key:
    """Names one answer of a run."""

    way: str
    question: str
    seed: int


class Store:
    """Use as a context manager. ValueError when the file is of another run."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._replies: dict[Key, Reply] = {}
        settings = json.loads(json.dumps(settings))
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = self._read(path, settings) if path.exists() else 0
        self._file = path.open("r+b" if kept else "wb")
        if kept:
            self._file.truncate(kept)  # a line that was cut off by the end of the run
            self._file.seek(kept)
        else:
            self._write({"settings": settings})

    def _read(self, path: Path, settings: dict[str, Any]) -> int:
        """Take in whole lines; returns where they end."""
        end = 0
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                row = json.loads(line)
                if end == 0:
                    _same(path, row["settings"], settings)
                else:
                    self._replies[Key(**row["key"])] = Reply(**row["reply"])
                end += len(line)
        return end

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __contains__(self, key: Key) -> bool:
        return key in self._replies

    def __iter__(self) -> Iterator[tuple[Key, Reply]]:
        return iter(self._replies.items())

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: Key) -> Reply | None:
        return self._replies.get(key)

    def add(self, key: Key, reply: Reply) -> None:
        self._write({"key": asdict(key), "reply": asdict(reply)})
        self._replies[key] = reply

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()


def _same(path: Path, held: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in sorted({*held, *wanted}):
        if held.get(name) != wanted.get(name):
            old, new = (_short(settings.get(name)) for settings in (held, wanted))
            raise ValueError(
                f"{path} holds a run with {name} {old}, not {new}; "
                "choose another --out, or remove the file"
            )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
