"""The spans of one answer, from its events: one for the answer, and one for each path inside it.

Names are OpenTelemetry's for generative AI; what it has none for is `multiverse.*`.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.request import AnswerRequest
from multiverse_shared.tracing import NO_SPAN, Span

ROOT = "0"


@dataclass(slots=True)
class _Path:
    span: Span
    tokens: int = 0


class AnswerTrace:
    """`saw` each event in order, then `ended` once, however it ended."""

    def __init__(self, call: Span, request: AnswerRequest) -> None:
        """`call` is the span of the call that asked."""
        self._answer = call.child(f"{request.operation} {request.model}", _asked(request))
        self._paths = {ROOT: _Path(self._answer.child(f"path {ROOT}", _path(ROOT)))}
        self._traced = bool(self._answer.traceparent)
        self._error = "the client left"

    def traceparent(self, path: str) -> str:
        """Names the span that work for `path` belongs to; empty when nothing is traced."""
        found = self._paths.get(path)
        return found.span.traceparent if found else self._answer.traceparent

    def saw(self, event: AnswerEvent) -> None:
        if not self._traced:
            return
        match event:
            case TextEvent():
                self._text(event)
            case ForkEvent():
                parent = self._paths[event.path].span
                parent.event(f"fork of {event.k}")
                for path in event.paths:
                    self._paths[path] = _Path(parent.child(f"path {path}", _path(path)))
            case PathEndEvent():
                self._end(event.path, event.reason)
            case JoinEvent():
                self._paths[event.path].span.event(f"join of {event.k}")
            case UsageEvent():
                self._usage(event)
            case FinishEvent():
                self._error = ""
                self._answer.set({"gen_ai.response.finish_reasons": (event.reason,)})
                self._end(ROOT, event.reason)
            case ErrorEvent():
                self._error = event.message
                self._answer.set({"error.type": event.kind})

    def ended(self) -> None:
        for path in [*self._paths]:
            self._end(path, "", self._error)
        self._answer.end(self._error)
        self._answer = NO_SPAN

    def _text(self, event: TextEvent) -> None:
        path = self._paths.get(event.path)
        if path is None:
            return
        if event.token_ids and not path.tokens:
            path.span.event("first token")
        path.tokens += len(event.token_ids)

    def _end(self, path: str, reason: str, error: str = "") -> None:
        ended = self._paths.pop(path, None)
        if ended is None:
            return
        tokens = {"gen_ai.usage.output_tokens": ended.tokens}
        ended.span.set({**tokens, "multiverse.finish_reason": reason} if reason else tokens)
        ended.span.end(error)

    def _usage(self, usage: UsageEvent) -> None:
        self._answer.set(
            {
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "multiverse.critical_path_tokens": usage.critical_path_tokens,
                "multiverse.parallelism": usage.parallelism,
                "multiverse.cached_tokens": usage.cached_tokens,
                "multiverse.reused_tokens": usage.reused_tokens,
            }
        )


def _asked(request: AnswerRequest) -> dict[str, str | int | float]:
    return {
        "gen_ai.operation.name": request.operation,
        "gen_ai.provider.name": "multiverse",
        "gen_ai.request.model": request.model,
        "gen_ai.response.model": request.model,
        "gen_ai.response.id": request.id,
        "gen_ai.request.max_tokens": request.limits.max_total_tokens,
        "gen_ai.request.temperature": request.sampling.temperature,
        "gen_ai.request.top_p": request.sampling.top_p,
        "multiverse.parallel": request.parallel.value,
    }


def _path(path: str) -> dict[str, str]:
    return {"multiverse.path": path}
