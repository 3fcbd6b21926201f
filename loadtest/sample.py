"""What one request was like for who asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    REFUSED = "refused"  # an error status before anything was said
    TOLD = "told"  # an error event: the answer is incomplete, and its client knows
    UNFINISHED = "unfinished"  # the run ended before it did
    SILENT = "silent"  # it broke off, or ended without an end: its client has to guess


@dataclass(slots=True)
class Sample:
    """Times are in seconds. What was not seen is None, or empty."""

    user: str
    api: str
    at: float  # since the start of the run
    outcome: Outcome = Outcome.OK
    error: str = ""
    total_s: float = 0.0
    first_token_s: float | None = None  # from the request
    tokens: int = 0
    critical_tokens: int = 0
    decode_s: float = 0.0  # from the first token to the last
    parallelism: float | None = None
    path_s: list[float] = field(default_factory=list)  # of each path, from its fork
    spread_s: list[float] = field(default_factory=list)  # of each block: last end - first end

    @property
    def token_s(self) -> float | None:
        """Time per output token, of all paths."""
        return self.decode_s / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def critical_token_s(self) -> float | None:
        """Time per token of the longest chain: what a reader of the whole answer waits for."""
        return self.decode_s / (self.critical_tokens - 1) if self.critical_tokens > 1 else None
