"""What the engine's cache holds, told to routers: changes with numbers, each message bounded.

A change is (digest of a content key, whether the cache has come to hold it). The changes of one
digest take turns. Knows no engine.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.keys import short_key

KEPT = 16_384  # changes: who is further behind is told all that is held
AT_ONCE = 1024  # digests in one message

CacheChange: TypeAlias = tuple[int, bool]


class CacheChanges:
    """Of an engine, from one `take` to the next: never more than was held then, and is now."""

    def __init__(self) -> None:
        self._changes: dict[int, bool] = {}

    def held(self, key: bytes) -> None:
        """The cache has come to hold `key`."""
        self._change(short_key(key), True)

    def gone(self, key: bytes) -> None:
        """It held `key`, and does no more."""
        self._change(short_key(key), False)

    def _change(self, digest: int, held: bool) -> None:
        if self._changes.pop(digest, held) is held:  # else they make up for each other
            self._changes[digest] = held

    def take(self) -> list[CacheChange]:
        changes, self._changes = self._changes, {}
        return list(changes.items())


class CacheJournal:
    """All that is held, and the last `kept` changes."""

    def __init__(self, kept: int = KEPT) -> None:
        self.cache = uuid.uuid4().hex
        self.sequence = 0  # of the last change
        self._held: dict[int, None] = {}  # longest held first
        self._changes: deque[CacheChange] = deque(maxlen=kept)

    def add(self, changes: Iterable[CacheChange]) -> None:
        for digest, held in changes:
            if held:
                self._held[digest] = None
            else:
                self._held.pop(digest, None)
            self._changes.append((digest, held))
            self.sequence += 1

    @property
    def held(self) -> list[int]:
        return list(self._held)

    def after(self, sequence: int, most: int) -> list[CacheChange] | None:
        """Up to `most` changes behind that one; None when the journal does not reach so far."""
        behind = self.sequence - sequence
        if not 0 <= behind <= len(self._changes):
            return None
        last = list(islice(reversed(self._changes), behind))  # a deque is walked from its ends
        return last[: -most - 1 : -1]


class CacheTelling:
    """What one watcher is told: `next` each time that it can be told something."""

    def __init__(self, journal: CacheJournal, heard: pb.CacheHeard, at_once: int = AT_ONCE) -> None:
        self._journal = journal
        self._at_once = at_once
        knows = heard.cache == journal.cache
        self._sequence = heard.sequence if knows else -1  # that is beyond any journal
        self._list: deque[int] = deque()  # that is being told
        self._list_of = 0  # the change that it was made behind
        self._is_first = True

    @property
    def behind(self) -> bool:
        """Whether there is more to tell already."""
        return bool(self._list) or self._sequence != self._journal.sequence

    def next(self) -> pb.CacheChanges | None:
        """None when there is nothing; the first time something is said in any case."""
        if not self._is_first and not self.behind:
            return None
        self._is_first = False
        if self._list:
            return self._listed(anew=False)
        changes = None
        if self._sequence >= 0:
            changes = self._journal.after(self._sequence, self._at_once)
        if changes is None:
            self._list.extend(self._journal.held)
            self._list_of = self._journal.sequence
            return self._listed(anew=True)
        after, self._sequence = self._sequence, self._sequence + len(changes)
        last = dict(changes)
        return pb.CacheChanges(
            cache=self._journal.cache,
            after=after,
            sequence=self._sequence,
            held=[digest for digest, held in last.items() if held],
            gone=[digest for digest, held in last.items() if not held],
        )

    def _listed(self, *, anew: bool) -> pb.CacheChanges:
        part = [self._list.popleft() for _ in range(min(self._at_once, len(self._list)))]
        self._sequence = 0 if self._list else self._list_of
        return pb.CacheChanges(
            cache=self._journal.cache, anew=anew, held=part, sequence=self._sequence
        )
