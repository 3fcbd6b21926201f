"""Reads the linear ids of a finished answer back into its context tree.

For chat history and for recorded outputs. Every token ends up in the tree once, in order, so
`linearise` of the result gives the ids back whatever they are; what breaks the grammar is
literal text and is counted. The rules for tags are those of `machine`; this module only knows
how paths follow each other in linear order. Dialects whose parent does not wait are read by
`promises`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular, Machine, OpenBlock, Phase, Verdict
from multiverse_shared.promises import PromiseReader
from multiverse_shared.reading import Incomplete, Reading
from multiverse_shared.rules import Rules
from multiverse_shared.scanner import Lexeme, TagScanner
from multiverse_shared.tree import Block, Context, Item, Text


def read(ids: Iterable[int], grammar: Grammar, limits: Limits, start: int = 0) -> Reading:
    """The tree of `ids`. Never fails: ill-formed is text; blocks left open are closed.

    `start` is the position of the first token; only rule "reserve" depends on it.
    """
    waits = grammar.dialect.parent_waits
    reader = PlanReader(grammar, limits) if waits else PromiseReader(grammar, limits, start)
    scanner = TagScanner(grammar)
    for token in ids:
        for lexeme in scanner.feed(token):
            reader.add(lexeme)
    for lexeme in scanner.flush():
        reader.add(lexeme)
    return reader.end()


@dataclass(slots=True)
class _Frame:
    """A path that is being read; `paths` are those of its open block."""

    machine: Machine
    items: list[Item | list[int]] = field(default_factory=list)
    paths: list[_Frame] = field(default_factory=list)

    def append(self, ids: Ids) -> None:
        if not self.items or not isinstance(self.items[-1], list):
            self.items.append([])
        run = self.items[-1]
        assert isinstance(run, list)
        run.extend(ids)

    def close_block(self) -> None:
        dialect = self.machine.grammar.dialect
        paths = tuple(path.context() for path in self.paths)
        self.items.append(
            Block(paths, dialect.rule, True, dialect.path_offset, dialect.join_offset)
        )
        self.paths = []

    def context(self) -> Context:
        return tuple(Text(tuple(i)) if isinstance(i, list) else i for i in self.items)


class PlanReader:
    """For dialects with plans. Feed it lexemes, then `end` it."""

    def __init__(self, grammar: Grammar, limits: Limits) -> None:
        self._grammar = grammar
        self._limits = limits
        self._rules = Rules(grammar, limits, forks_allowed=True)
        self._frames = [_Frame(Machine(grammar, is_path=False))]
        self._irregular: Counter[str] = Counter()

    def add(self, lexeme: Lexeme) -> None:
        frame = self._frames[-1]
        top = frame.machine.top
        if top and top.phase is Phase.FORKED:
            self._between_paths(frame, len(top.outlines), lexeme)
            return
        frame.machine, verdict = frame.machine.step(lexeme)
        frame.append(lexeme.ids)
        if frame.machine.irregular:
            self._irregular[frame.machine.irregular] += 1
        if verdict is Verdict.PATH_CLOSED:
            self._frames.pop()
        elif verdict is Verdict.PLAN_CLOSED:
            assert frame.machine.top is not None
            self._judge(frame.machine.top)

    def _judge(self, plan: OpenBlock) -> None:
        """Count what is odd about the outlines of a closed plan."""
        if len(plan.outlines) > self._limits.max_paths:
            self._irregular[Incomplete.RUNAWAY] += 1
        if not self._rules.well_labelled(plan.outlines):
            self._irregular[Incomplete.ODD_LABELS] += 1

    def _between_paths(self, frame: _Frame, outlines: int, lexeme: Lexeme) -> None:
        """Behind a plan: paths, then what follows the join; else text of the last path."""
        tag = lexeme.tag
        if tag is Tag.PATH_OPEN and len(frame.paths) < outlines:
            path = _Frame(Machine(self._grammar, is_path=True))
            path.append(lexeme.ids)
            frame.paths.append(path)
            self._frames.append(path)
        elif tag in (Tag.JOIN_OPEN, Tag.BLOCK_CLOSE):
            concluded = tag in self._grammar.join_tags
            if not concluded:  # the block ends where its conclusion should begin
                self._irregular[Incomplete.NO_CONCLUSION] += 1
            self._join(frame, outlines, concluded=concluded)
            frame.append(lexeme.ids)
        else:
            if tag:
                self._irregular[Irregular.STRAY_TAG] += 1
            (frame.paths[-1] if frame.paths else frame).append(lexeme.ids)

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
