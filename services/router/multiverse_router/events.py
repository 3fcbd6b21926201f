"""What a client is told, in order: the public events of one answer.

Every event has a `type`; on the wire it also carries a sequence number.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias

from multiverse_router.logprobs import TokenLogprob

THINK = "think"


@dataclass(frozen=True, slots=True)
class StartEvent:
    type: ClassVar[str] = "start"
    request: str
    model: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class TextEvent:
    """`path` grew by `delta`.

    `kind`: `text`, `tag` or `think` (a thinking tag) from the model, `written` by the system.
    """

    type: ClassVar[str] = "text"
    path: str
    kind: str
    delta: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None  # of `token_ids`, if asked for


@dataclass(frozen=True, slots=True)
class ForkEvent:
    """`path` waits; `paths` start, one for each outline."""

    type: ClassVar[str] = "fork"
    path: str
    k: int
    paths: tuple[str, ...]
    outlines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathEndEvent:
    """`forced`: the closing tag was written by the system."""

    type: ClassVar[str] = "path_end"
    path: str
    reason: str
    forced: bool


@dataclass(frozen=True, slots=True)
class JoinEvent:
    """All of `paths` have ended; `path` goes on from them."""

    type: ClassVar[str] = "join"
    path: str
    k: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """Counts of the whole answer; tokens."""

    type: ClassVar[str] = "usage"
    prompt_tokens: int
    completion_tokens: int  # every token of the answer once, written ones included
    written_tokens: int
    critical_path_tokens: int
    parallelism: float
    cached_tokens: int  # of the prompt, found in the cache
    reused_tokens: int  # by paths and joins
    irregular: dict[str, int]  # what broke the dialect's grammar: class and how often


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """`context` is the answer's tree, signed, where it was asked for.

    `context_omitted` says why it is not there: `too_large`. `stop` is the stop string that ended
    the answer, if one did.
    """

    type: ClassVar[str] = "finish"
    reason: str
    context: str | None = None
    context_omitted: str | None = None
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The answer ends here, incomplete."""

    type: ClassVar[str] = "error"
    kind: str
    message: str


AnswerEvent: TypeAlias = (
    StartEvent
    | TextEvent
    | ForkEvent
    | PathEndEvent
    | JoinEvent
    | UsageEvent
    | FinishEvent
    | ErrorEvent
)


def event_json(event: AnswerEvent, sequence: int) -> dict[str, Any]:
    """The event as the native API sends it; what it does not have is left out."""
    out: dict[str, Any] = {"type": event.type, "seq": sequence}
    for name in event.__slots__:
        value = getattr(event, name)
        if name == "logprobs" and value is not None:
            out[name] = [asdict(entry) for entry in value]
        elif value is not None:
            out[name] = value
    return out
