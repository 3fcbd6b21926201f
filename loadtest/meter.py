"""Times the events of one answer as they arrive."""

from __future__ import annotations

import time

from loadtest.sample import Sample
from multiverse_client.events import Event, Fork, Join, PathEnd, Text, Usage


class Meter:
    """`saw` each event as it arrives, then `ended`; `sample` has what came of it."""

    def __init__(self, user: str, api: str, at: float) -> None:
        self.sample = Sample(user, api, at)
        self._begun = time.perf_counter()
        self._first: float | None = None
        self._last = self._begun
        self._forks: dict[str, float] = {}  # of paths that run
        self._ends: dict[str, float] = {}  # of paths whose block is open

    def saw(self, event: Event) -> None:
        now = time.perf_counter()
        match event:
            case Text() if event.token_ids:
                self.token(len(event.token_ids), now)
            case Fork():
                self._forks |= dict.fromkeys(event.paths, now)
            case PathEnd():
                self._ends[event.path] = now
                self.sample.path_s.append(now - self._forks.pop(event.path, now))
            case Join():
                ends = [self._ends.pop(path, now) for path in event.paths]
                self.sample.spread_s.append(max(ends) - min(ends))
            case Usage():
                self.usage(event.completion_tokens, event.critical_path_tokens, event.parallelism)

    def token(self, count: int, now: float | None = None) -> None:
        """So many tokens arrived."""
        self._last = time.perf_counter() if now is None else now
        self._first = self._last if self._first is None else self._first
        self.sample.tokens += count

    def usage(self, tokens: int, critical: int, parallelism: float) -> None:
        """What the router counted."""
        self.sample.tokens = tokens
        self.sample.critical_tokens = critical
        self.sample.parallelism = parallelism

    def ended(self) -> Sample:
        sample = self.sample
        sample.total_s = time.perf_counter() - self._begun
        if self._first is not None:
            sample.first_token_s = self._first - self._begun
            sample.decode_s = self._last - self._first
        return sample
