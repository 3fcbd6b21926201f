"""Forks with paths that wait, by the worker they wait at, asked when something has ended there.

The router's forks ask by themselves, every so often, and give way to those before them; here
they are asked in that order, so that no time passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multiverse_router.placement.view import Progress
from multiverse_router.placement.waiting import turn


@dataclass(slots=True, eq=False)
class Waiting:
    """A fork some of whose paths wait. `ask` places what it can; whether that was any."""

    home: str
    progress: Progress
    ask: Callable[[], bool]


class WaitingForks:
    """One for each fleet."""

    def __init__(self) -> None:
        self._at: dict[str, list[Waiting]] = {}

    def add(self, waiting: Waiting) -> None:
        self._at.setdefault(waiting.home, []).append(waiting)

    def remove(self, waiting: Waiting) -> None:
        """Always safe."""
        at = self._at.get(waiting.home, [])
        if waiting in at:
            at.remove(waiting)
        if not at:
            self._at.pop(waiting.home, None)

    def homes(self) -> list[str]:
        """Workers that forks wait at."""
        return list(self._at)

    def freed(self, home: str, now_s: float) -> None:
        """A place may be free on `home`: ask in the order of `turn`, until one gets none.

        Those that are asked may remove themselves.
        """
        at = self._at.get(home)
        if not at:
            return
        for waiting in sorted(at, key=lambda waiting: turn(waiting.progress, now_s)):
            if not waiting.ask():
                return
