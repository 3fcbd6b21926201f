"""The events of one answer, as values. Fields that are not known here are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

from multiverse_client.errors import ConnectionFailed


@dataclass(frozen=True, slots=True)
class Start:
    """The first event; `prompt_tokens` were read."""

    type: ClassVar[str] = "start"
    seq: int
    request: str
    model: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Probable:
    """One of the most probable tokens at a place."""

    id: int
    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural logarithm of a token's probability; `top` has the most probable first."""

    id: int
    token: str
    logprob: float
    top: tuple[Probable, ...]
    written: bool  # by the system


@dataclass(frozen=True, slots=True)
class Text:
    """`path` grew by `delta`.

    `kind`: `text`, `tag` or `think` (a thinking tag) from the model, `written` by the system.
    """

    type: ClassVar[str] = "text"
    seq: int
    path: str
    kind: str
    delta: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()  # one for each of `token_ids`, if asked for


@dataclass(frozen=True, slots=True)
class Fork:
    """`path` waits; each of `paths` starts, for the outline of the same place."""

    type: ClassVar[str] = "fork"
    seq: int
    path: str
    k: int
    paths: tuple[str, ...]
    outlines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathEnd:
    """`reason`: `stop`, `eos`, `length`. `forced`: the system wrote the closing tag."""

    type: ClassVar[str] = "path_end"
    seq: int
    path: str
    reason: str
    forced: bool


@dataclass(frozen=True, slots=True)
class Join:
    """All of `paths` have ended; `path` goes on from them."""

    type: ClassVar[str] = "join"
    seq: int
    path: str
    k: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of the whole answer, in tokens."""

    type: ClassVar[str] = "usage"
    seq: int
    prompt_tokens: int
    completion_tokens: int  # every token of the answer once, written ones included
    written_tokens: int
    critical_path_tokens: int
    parallelism: float
    cached_tokens: int  # of the prompt, found in the cache
    reused_tokens: int  # by paths and joins
    irregular: dict[str, int] = field(default_factory=dict)  # what broke the grammar


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event. `reason`: `stop`, `length`, `deadline`.

    `stop` is the stop string that ended the answer; `context` the answer's signed tree, if asked
    for, or `context_omitted` the reason why it is not there.
    """

    type: ClassVar[str] = "finish"
    seq: int
    reason: str
    stop: str | None = None
    context: str | None = None
    context_omitted: str | None = None


Event: TypeAlias = Start | Text | Fork | PathEnd | Join | Usage | Finish
_EVENTS: dict[str, type[Event]] = {
    cls.type: cls for cls in (Start, Text, Fork, PathEnd, Join, Usage, Finish)
}
_NAMES = {cls: frozenset(field.name for field in fields(cls)) for cls in _EVENTS.values()}


def read_event(data: Mapping[str, Any]) -> Event | None:
    """The event that `data` holds, as the API has it; None for a type that is not known here.

    ConnectionFailed when fields are missing: that is no answer of this API.
    """
    cls = _EVENTS.get(data.get("type", ""))
    if cls is None:
        return None
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in data.items()
        if name in _NAMES[cls]
    }
    try:
        if given.get("logprobs"):
            given["logprobs"] = tuple(map(_logprob, given["logprobs"]))
        return cls(**given)
    except (TypeError, KeyError) as error:
        raise ConnectionFailed(
            f"an event of type {cls.type!r} can't be read ({error}); is this a Multiverse router?",
            started=True,
        ) from None


def _logprob(entry: Mapping[str, Any]) -> TokenLogprob:
    top = tuple(Probable(one["id"], one["token"], one["logprob"]) for one in entry["top"])
    return TokenLogprob(entry["id"], entry["token"], entry["logprob"], top, entry["written"])
