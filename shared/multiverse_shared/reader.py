"""Reads the linear ids of a finished answer back into its context tree.

For chat history and for recorded outputs. Every token ends up in the tree once, in order, so
`linearise` of the result gives the ids back whatever they are; what breaks the grammar is
literal text and is counted. The rules for tags are those of `machine`; this module only knows
how paths follow each other in linear order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular, Machine, Phase, Verdict
from multiverse_shared.tree import Block, Context, Item, Text


class Incomplete(StrEnum):
    """What only shows when a whole answer is read."""

    FEWER_PATHS = "fewer_paths_than_outlines"
    NO_CONCLUSION = "paths_without_conclusion"
    PATH_WITHOUT_END = "path_without_end"
    OPEN_BLOCK = "block_open_at_the_end"
    RUNAWAY = "more_outlines_than_allowed"


@dataclass(frozen=True, slots=True)
class Reading:
    """The tree of an answer, and how often what broke the grammar of its dialect."""

    context: Context
    irregular: Counter[str]  # values of `Irregular` and of `Incomplete`


@dataclass(slots=True)
class _Frame:
    """A path that is being read; `paths` are those of its open block."""

    machine: Machine
    items: list[Item | list[int]] = field(default_factory=list)
    paths: list[_Frame] = field(default_factory=list)

    def append(self, token: int) -> None:
        if not self.items or not isinstance(self.items[-1], list):
            self.items.append([])
        run = self.items[-1]
        assert isinstance(run, list)
        run.append(token)

    def close_block(self) -> None:
        dialect = self.machine.grammar.dialect
        paths = tuple(path.context() for path in self.paths)
        self.items.append(
            Block(paths, dialect.rule, True, dialect.path_offset, dialect.join_offset)
        )
        self.paths = []

    def context(self) -> Context:
        return tuple(Text(tuple(i)) if isinstance(i, list) else i for i in self.items)


def read(ids: Iterable[int], grammar: Grammar, limits: Limits) -> Reading:
    """The tree of `ids`. Never fails: ill-formed is text; blocks left open are closed."""
    reader = _Reader(grammar, limits)
    for token in ids:
        reader.token(token)
    return reader.end()


class _Reader:
    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        self._grammar = grammar
        self._limits = limits
        self._frames = [_Frame(Machine(grammar, is_path=False))]
        self._irregular: Counter[str] = Counter()

    def token(self, token: int) -> None:
        frame = self._frames[-1]
        top = frame.machine.top
        if top and top.phase is Phase.FORKED:
            self._between_paths(frame, len(top.outlines), token)
            return
        frame.machine, verdict = frame.machine.step(token)
        frame.append(token)
        if frame.machine.irregular:
            self._irregular[frame.machine.irregular] += 1
        if verdict is Verdict.PATH_CLOSED:
            self._frames.pop()
        elif verdict is Verdict.PLAN_CLOSED:
            planned = frame.machine.top
            if planned and len(planned.outlines) > self._limits.max_paths:
                self._irregular[Incomplete.RUNAWAY] += 1

    def _between_paths(self, frame: _Frame, outlines: int, token: int) -> None:
        """Behind a plan: paths, then what follows the join; else text of the last path."""
        tag = self._grammar.tag_of.get(token)
        header = {self._grammar.tag_of.get(token) for token in self._grammar.join_header}
        if tag is Tag.PATH_OPEN and len(frame.paths) < outlines:
            path = _Frame(Machine(self._grammar, is_path=True))
            path.append(token)
            frame.paths.append(path)
            self._frames.append(path)
        elif tag in (Tag.JOIN_OPEN, Tag.BLOCK_CLOSE):
            if tag not in header:  # the block ends where its conclusion should begin
                self._irregular[Incomplete.NO_CONCLUSION] += 1
            self._join(frame, outlines, concluded=tag in header)
            frame.append(token)
        else:
            if tag:
                self._irregular[Irregular.STRAY_TAG] += 1
            (frame.paths[-1] if frame.paths else frame).append(token)

    def _join(self, frame: _Frame, outlines: int, *, concluded: bool) -> None:
        if len(frame.paths) < outlines:
            self._irregular[Incomplete.FEWER_PATHS] += 1
        if frame.paths:
            frame.close_block()
        frame.machine = frame.machine.joined() if concluded else frame.machine.abandoned()

    def end(self) -> Reading:
        """Close what is open."""
        self._irregular[Incomplete.PATH_WITHOUT_END] += len(self._frames) - 1
        for frame in reversed(self._frames):
            if frame.paths:
                frame.close_block()
            if frame.machine.stack:
                self._irregular[Incomplete.OPEN_BLOCK] += 1
        return Reading(self._frames[0].context(), +self._irregular)
