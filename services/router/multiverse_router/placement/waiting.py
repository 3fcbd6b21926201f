"""Whose turn it is among forks whose paths wait at one worker.

Knows the order, not whether there is room: that is the policy's.
"""

from __future__ import annotations

from typing import TypeVar

from multiverse_router.placement.slack import slack_ms
from multiverse_router.placement.view import Progress

_Key = TypeVar("_Key")
_Member = TypeVar("_Member")


def turn(progress: Progress, now_s: float) -> tuple[int, bool, float]:
    """Ascending: by priority; those that can still be in time, least slack first; then those
    that are late, the latest last: who can't be helped does not make others late."""
    slack = slack_ms(progress, now_s)
    return -progress.priority, slack < 0, abs(slack)


class Turns:
    """The requests with paths that wait, by worker. One for each fleet."""

    def __init__(self) -> None:
        self._at: dict[str, set[Progress]] = {}
        self._homes: dict[Progress, set[str]] = {}  # the same, by request

    def is_first(self, home: str, progress: Progress, now_s: float) -> bool:
        """Whether nobody who waits at a worker goes before this request."""
        own = turn(progress, now_s)
        others = self._at.get(home, ())
        return all(turn(other, now_s) >= own for other in others if other is not progress)

    def wait(self, home: str, progress: Progress) -> None:
        """Paths of a request wait at a worker, where it asks again before long."""
        self._at.setdefault(home, set()).add(progress)
        self._homes.setdefault(progress, set()).add(home)

    def leave(self, home: str, progress: Progress) -> None:
        """It waits there no more. Always safe."""
        _discard(self._at, home, progress)
        _discard(self._homes, progress, home)

    def end(self, progress: Progress) -> None:
        """A request is over: it waits nowhere. Always safe."""
        for home in tuple(self._homes.get(progress, ())):
            self.leave(home, progress)


def _discard(sets: dict[_Key, set[_Member]], key: _Key, member: _Member) -> None:
    """Take a member out of one of many sets; an empty set is not kept."""
    members = sets.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del sets[key]
