"""When a request reached the far end, and when its first token left there, by its seed.

Clients and the far end read the same clock (CLOCK_MONOTONIC), so a client knows how long its
request and its first token were outside: on the way, and in whatever stands between.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeAlias

Times: TypeAlias = tuple[float, float]  # arrived, first token written; seconds


class NoteBook:
    """Kept by the far end: one line for each request."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="ascii")
        self.waiting: dict[int, tuple[int, float]] = {}  # by branch: seed, arrived

    def arrived(self, branch: int, seed: int) -> None:
        self.waiting[branch] = seed, time.monotonic()

    def written(self, branch: int) -> None:
        """The first token of a branch in `waiting` leaves now."""
        seed, arrived = self.waiting.pop(branch)
        self._file.write(f"{seed} {arrived!r} {time.monotonic()!r}\n")


class NoteReader:
    """Reads on in a book from where it was read last."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open(encoding="ascii")

    def take(self) -> dict[int, Times]:
        """What was noted since, by seed."""
        rows = (line.split() for line in self._file)
        return {int(seed): (float(arrived), float(written)) for seed, arrived, written in rows}
