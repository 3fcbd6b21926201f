"""What the interpreter tells the world: work for engines, and events for readers.

Pure values in token ids. The coordinator carries out the work; it turns ids into text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from multiverse_shared.grammar import Ids
from multiverse_shared.tree import Context


class Kind(StrEnum):
    """Where a token comes from."""

    TEXT = "text"  # the model wrote it
    TAG = "tag"  # the model wrote it, and it is structure
    WRITTEN = "written"  # the system wrote it from a template


class Reason(StrEnum):
    """Why a path, or the whole answer, ended."""

    STOP = "stop"  # a closing tag in a path; end of sequence in the root
    EOS = "eos"  # end of sequence inside a path: the system closed the path
    LENGTH = "length"  # the budget is used up
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Stop:
    """Ids that end a branch. With `keep` they stay in its context; then follows `tail`."""

    ids: Ids
    tail: Ids = ()
    keep: bool = True


@dataclass(frozen=True, slots=True)
class StartBranch:
    """Decode on from `context` until a stop or `max_tokens` sampled tokens."""

    branch: str  # unique in the request
    path: str
    block: str | None  # the branch that forked it
    context: Context
    max_tokens: int
    stops: tuple[Stop, ...]
    length_tail: Ids  # appended when the tokens are used up
    banned: tuple[Ids, ...]  # sequences that must not be sampled
    draws: int  # tokens this path has sampled before: index of the next random draw
    joins: tuple[str, ...]  # finished branches that this one goes on from


@dataclass(frozen=True, slots=True)
class AbortBranch:
    """Stop decoding this branch; nothing it says from now on counts."""

    branch: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """A path grew."""

    path: str
    ids: Ids
    kind: Kind


@dataclass(frozen=True, slots=True)
class Forked:
    """The plan of `path` is closed and its paths start."""

    path: str
    paths: tuple[str, ...]
    outlines: tuple[Ids, ...]


@dataclass(frozen=True, slots=True)
class PathEnded:
    """A path is complete. `forced`: its closing tag was written by the system."""

    path: str
    reason: Reason
    forced: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """All paths of the open block of `path` have ended; it goes on from all of them."""

    path: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete."""

    reason: Reason


Event: TypeAlias = Tokens | Forked | PathEnded | Joined | Finished
Effect: TypeAlias = StartBranch | AbortBranch | Event
