"""How much KV may be copied in and out within a step, so that decoding does not wait for it."""

from __future__ import annotations

import time

_BESIDE_DECODING_S = 0.002
_ALONE_S = 0.02


class Pace:
    """At least one piece a step. `spent`: something had to wait for the next step."""

    def __init__(self) -> None:
        self._until = 0.0
        self._first = True
        self.spent = False

    def begin(self, *, decoding: bool) -> None:
        """A step begins, in which others decode or not."""
        self._until = time.perf_counter() + (_BESIDE_DECODING_S if decoding else _ALONE_S)
        self._first = True
        self.spent = False

    def may(self) -> bool:
        """Whether one more piece may be copied."""
        first, self._first = self._first, False
        self.spent = not (first or time.perf_counter() < self._until)
        return not self.spent
