"""Who looks on while an answer is made: what is told of its branches, beside its events."""

from __future__ import annotations

from enum import StrEnum


class Place(StrEnum):
    """Where a path runs, seen from the worker that its answer is at home on."""

    HOME = "home"
    AWAY = "away"
    MOVED = "moved"  # it goes on there: the worker that it ran on was lost, or gave it up


class JoinSource(StrEnum):
    """Where the worker had the KV of what a join goes on from."""

    HELD = "held"  # in its own cache, all of it
    FETCHED = "fetched"  # some of it in the tier, the rest in its cache
    RECOMPUTED = "recomputed"  # nowhere, some of it


class Observer:
    """One that looks away, and the contract of those that do not."""

    def traceparent(self, path: str) -> str:
        """Names the span that work for `path` belongs to; empty: nothing is traced."""
        return ""

    def placed(self, path: str, place: Place) -> None:
        """A path of a block begins, or goes on, on a worker."""

    def joined(self, path: str, source: JoinSource) -> None:
        """A path has gone on from the paths of its block."""


NOBODY = Observer()
