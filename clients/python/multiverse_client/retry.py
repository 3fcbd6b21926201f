"""When to ask again. Only ever before the first byte of an answer: after it, work was done."""

from __future__ import annotations

import random
from dataclasses import dataclass

from multiverse_client.errors import ApiError


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `attempts` in all. Waits are drawn from the upper half of a doubling bound.

    What the server asks for (`Retry-After`) is waited for as it says, but not longer than
    `longest_s`: then the error is raised at once.
    """

    attempts: int = 3
    first_s: float = 0.5
    longest_s: float = 8.0

    def delay(self, attempt: int, error: ApiError) -> float | None:
        """Seconds to wait after failure number `attempt` (from 1); None: give up."""
        if attempt >= self.attempts or error.started or not error.retried:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.longest_s else None
        bound = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        return bound * random.uniform(0.5, 1.0)
