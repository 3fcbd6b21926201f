"""Carries out an interpreter's effects as the engine contract says, without a model.

`decode` is a pure function: what a branch samples follows from its start alone. Only the
order in which branches report, and in what portions, is up to a schedule.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multiverse_shared.effects import (
    AbortBranch,
    Effect,
    Event,
    Finished,
    Kind,
    Reason,
    StartBranch,
    Tokens,
)
from multiverse_shared.grammar import Ids
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.tree import Block, Context, Text, linearise


class Model(Protocol):
    """Says what comes next in a path."""

    def __call__(self, path: str, index: int, last: int, banned: Ids) -> int:
        """Token number `index` that `path` samples, behind token `last`; never a banned one."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """All that a branch samples, and how it ends."""

    ids: Ids
    reason: Reason
    stop: int | None
    context: Context  # as the engine holds it, tail included


def decode(start: StartBranch, model: Model) -> Decoded:
    """Sample until a stop or `max_tokens`; a stop on the last token is a stop."""
    check(start)
    last = linearise(start.context)[-1]
    ids: list[int] = []
    while len(ids) < start.max_tokens:
        banned = tuple(b[-1] for b in start.banned if b[:-1] == tuple(ids[len(ids) - len(b) + 1 :]))
        last = model(start.path, start.draws + len(ids), last, banned)
        assert last not in banned
        ids.append(last)
        for number, stop in enumerate(start.stops):
            if tuple(ids[-len(stop.ids) :]) == stop.ids:
                kept = ids if stop.keep else ids[: -len(stop.ids)]
                whole = (*start.context, Text((*kept, *stop.tail)))
                return Decoded(tuple(ids), Reason.STOP, number, whole)
    whole = (*start.context, Text((*ids, *start.length_tail)))
    return Decoded(tuple(ids), Reason.LENGTH, None, whole)


def check(start: StartBranch) -> None:
    """What an engine refuses."""
    assert start.max_tokens >= 1
    assert isinstance(start.context[-1], Text), "the next token needs one before it"
    assert all(item.closed for item in start.context if isinstance(item, Block))
    for stop in start.stops:
        assert stop.ids
        assert stop.keep or len(stop.ids) == 1


@dataclass
class Record:
    """All that happened in one answer."""

    interpreter: Interpreter
    events: list[Event] = field(default_factory=list)
    starts: dict[str, StartBranch] = field(default_factory=dict)
    decoded: dict[str, Decoded] = field(default_factory=dict)
    aborted: list[str] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return self.interpreter.context

    def of_type(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def by_path(self) -> dict[str, list[Event]]:
        """The events of each path, growth of one kind merged into one event."""
        out: dict[str, list[Event]] = {}
        for event in self.events:
            told = out.setdefault("0" if isinstance(event, Finished) else event.path, [])
            last = told[-1] if told else None
            if isinstance(event, Tokens) and isinstance(last, Tokens) and last.kind is event.kind:
                told[-1] = Tokens(event.path, last.ids + event.ids, event.kind)
            else:
                told.append(event)
        return out

    def said(self, path: str, *kinds: Kind) -> Ids:
        """The tokens of a path, all of them or those of some kinds."""
        return tuple(
            token
            for event in self.events
            if isinstance(event, Tokens) and event.path == path
            if not kinds or event.kind in kinds
            for token in event.ids
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which of the live branches reports next, and how many tokens at most.

    No more than `most_live` of them decode at once; the others wait, in the order of their paths.
    """

    pick: Callable[[Sequence[str]], str]
    portion: Callable[[], int]
    most_live: int = 1 << 30

    @classmethod
    def serial(cls) -> Schedule:
        """One path after another, all of a branch at once."""
        return cls(lambda live: live[0], lambda: 1 << 30)

    @classmethod
    def backwards(cls) -> Schedule:
        """The youngest branch first, token by token."""
        return cls(lambda live: live[-1], lambda: 1)

    @classmethod
    def shuffled(cls, seed: int) -> Schedule:
        rng = random.Random(seed)
        return cls(rng.choice, lambda: rng.randint(0, 5))


def run(interpreter: Interpreter, model: Model, schedule: Schedule | None = None) -> Record:
    """The whole answer."""
    schedule = schedule or Schedule.serial()
    record = Record(interpreter)
    live: dict[str, int] = {}  # branch -> how many of its tokens were reported
    waiting: list[tuple[list[int], str]] = []  # branches in the order of their paths

    def apply(effects: list[Effect]) -> None:
        for effect in effects:
            last = record.events[-1] if record.events else None
            assert not isinstance(last, Finished), "nothing happens after the end"
            if isinstance(effect, StartBranch):
                assert effect.branch not in record.starts
                record.starts[effect.branch] = effect
                record.decoded[effect.branch] = decode(effect, model)
                insort(waiting, ([int(n) for n in effect.path.split(".")], effect.branch))
            elif isinstance(effect, AbortBranch):
                del live[effect.branch]
                record.aborted.append(effect.branch)
            else:
                record.events.append(effect)

    apply(interpreter.begin())
    while live or waiting:
        while waiting and len(live) < schedule.most_live:
            live[waiting.pop(0)[1]] = 0
        branch = schedule.pick(list(live))
        decoded, reported = record.decoded[branch], live[branch]
        if reported < len(decoded.ids):
            ids = decoded.ids[reported : reported + schedule.portion()]
            live[branch] += len(ids)
            apply(interpreter.sampled(branch, ids))
        else:
            del live[branch]
            apply(interpreter.finished(branch, decoded.reason, decoded.stop))
        if branch not in live:  # what an engine says late counts no more
            assert interpreter.sampled(branch, decoded.ids) == []
            assert interpreter.finished(branch, Reason.LENGTH) == []
    assert interpreter.finished_reason is not None, "an answer always ends"
    return record
