"""A span for each branch of a traced request: from its start to its end on the engine.

Knows updates. Must not know gRPC or how an engine works.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.tracing import Span, Tracer, Value
from multiverse_worker.contract import BranchId, Finish, Start, Update

_NAMES = "multiverse."


@dataclass(slots=True)
class _Open:
    span: Span
    tokens: int = 0


class BranchSpans:
    """Of one worker. Branches without a `traceparent` cost a look into a dictionary."""

    def __init__(self, tracer: Tracer, engine: str) -> None:
        self._tracer = tracer
        self._engine = engine
        self._open: dict[BranchId, _Open] = {}

    def begun(self, start: Start, traceparent: str) -> None:
        if not traceparent:
            return
        attributes: dict[str, Value] = {
            f"{_NAMES}engine": self._engine,
            f"{_NAMES}request": start.request,
            f"{_NAMES}path": start.sampling.stream,
            f"{_NAMES}joins": len(start.consumes),
            "gen_ai.request.max_tokens": start.max_tokens,
        }
        span = self._tracer.span("decode", traceparent, "server", attributes)
        self._open[start.branch] = _Open(span)

    def told(self, update: Update) -> None:
        found = self._open.get(update.branch)
        if found is None:
            return
        if update.ids and not found.tokens:
            found.span.event("first token")
        found.tokens += len(update.ids)
        if update.finish:
            self._end(update.branch, update.finish)

    def lost(self, stream: int) -> None:
        """The router's stream broke: its branches end with it."""
        for branch in [branch for branch in self._open if branch.stream == stream]:
            self._open.pop(branch).span.end("the router's stream broke")

    def _end(self, branch: BranchId, finish: Finish) -> None:
        found = self._open.pop(branch)
        found.span.set(
            {
                f"{_NAMES}finish_reason": finish.reason.value,
                f"{_NAMES}context_tokens": finish.context_tokens,
                f"{_NAMES}reused_tokens": finish.reused_tokens,
                "gen_ai.usage.output_tokens": found.tokens,
            }
        )
        found.span.end(finish.error.message if finish.error else "")
