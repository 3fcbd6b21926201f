"""The state machine of one path: which tags are legal now, and what they do.

Works on lexemes (see `scanner`). A tag that is not legal in the present phase is literal text.
Knows no budgets and no siblings (see `interpreter`). For dialects whose parent waits at a fork;
the others are read by `promises`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.scanner import Lexeme


class Phase(StrEnum):
    """Where in a block the path is."""

    OPENED = "opened"  # the block is open, its plan is not
    PLAN = "plan"  # between outlines
    OUTLINE = "outline"
    FORKED = "forked"  # the plan is closed; nothing more is decoded before the join
    CONCLUSION = "conclusion"
    CONCLUDED = "concluded"  # the conclusion is closed, the block is not


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """One level of the stack."""

    phase: Phase
    outlines: tuple[Ids, ...] = ()
    outline: Ids = ()  # ids of the outline being written
    plan_tokens: int = 0


class Verdict(StrEnum):
    """What a lexeme turned out to be."""

    TEXT = "text"
    TAG = "tag"
    PLAN_CLOSED = "plan_closed"  # a legal end of the plan: fork
    PATH_CLOSED = "path_closed"  # a legal end of the path


class Irregular(StrEnum):
    """What a lexeme did that a clean answer would not."""

    STRAY_TAG = "stray_tag"  # a tag where it is not legal: literal text
    PLAN_WITHOUT_BLOCK = "plan_without_block"  # the block is opened implicitly
    BLOCK_WITHOUT_END = "block_without_end"  # the block is closed implicitly
    NO_OUTLINES = "no_outlines"  # nothing to fork


@dataclass(frozen=True, slots=True)
class Machine:
    """State of one path; `step` gives the next state and what the lexeme was."""

    grammar: Grammar
    is_path: bool  # false for the root, which no tag can close
    stack: tuple[OpenBlock, ...] = field(default=())
    irregular: Irregular | None = None  # what the last lexeme did

    @property
    def top(self) -> OpenBlock | None:
        return self.stack[-1] if self.stack else None

    @property
    def planning(self) -> OpenBlock | None:
        """The block whose plan is being written, if there is one."""
        top = self.top
        return top if top and top.phase in (Phase.PLAN, Phase.OUTLINE) else None

    def step(self, lexeme: Lexeme) -> tuple[Machine, Verdict]:
        """Read what the model wrote next."""
        ids, tag = lexeme.ids, lexeme.tag
        if tag is None:
            return self._text(ids), Verdict.TEXT
        machine, irregular = self._tolerant(tag)
        top = machine.top
        match tag, top.phase if top else None:
            case Tag.BLOCK_OPEN, (None | Phase.CONCLUSION):
                return machine._push(OpenBlock(Phase.OPENED), irregular), Verdict.TAG
            case Tag.PLAN_OPEN, Phase.OPENED:
                return machine._set(irregular, phase=Phase.PLAN), Verdict.TAG
            case Tag.PLAN_OPEN, (None | Phase.CONCLUSION):
                if Tag.BLOCK_OPEN in self.grammar.tags:
                    irregular = Irregular.PLAN_WITHOUT_BLOCK
                return machine._push(OpenBlock(Phase.PLAN), irregular), Verdict.TAG
            case Tag.OUTLINE_OPEN, Phase.PLAN:
                return machine._count(ids, phase=Phase.OUTLINE, outline=()), Verdict.TAG
            case Tag.OUTLINE_CLOSE, Phase.OUTLINE:
                assert top is not None
                outlines = (*top.outlines, top.outline)
                closed = machine._count(ids, phase=Phase.PLAN, outlines=outlines, outline=())
                return closed, Verdict.TAG
            case Tag.PLAN_CLOSE, Phase.PLAN:
                assert top is not None
                irregular = None if top.outlines else Irregular.NO_OUTLINES
                return machine._set(irregular, phase=Phase.FORKED), Verdict.PLAN_CLOSED
            case Tag.JOIN_CLOSE, Phase.CONCLUSION:
                return machine._concluded(), Verdict.TAG
            case Tag.BLOCK_CLOSE, Phase.CONCLUDED:
                return machine._pop(), Verdict.TAG
            case Tag.PATH_CLOSE, None if self.is_path:
                return replace(machine, irregular=irregular), Verdict.PATH_CLOSED
        return replace(self._text(ids), irregular=Irregular.STRAY_TAG), Verdict.TEXT

    def close_plan(self) -> Machine:
        """The system closes the plan; an outline that is still open does not count."""
        return self._set(phase=Phase.FORKED, outline=())

    def joined(self) -> Machine:
        """The paths have ended and the join header is written."""
        if Tag.JOIN_OPEN in self.grammar.join_tags:
            return self._set(phase=Phase.CONCLUSION, outlines=())
        return self._pop() if Tag.BLOCK_CLOSE in self.grammar.join_tags else self._concluded()

    def abandoned(self) -> Machine:
        """The block is closed without a conclusion."""
        return self._pop()

    def _tolerant(self, tag: Tag) -> tuple[Machine, Irregular | None]:
        """A block that is only missing its end is closed by the next block or path end."""
        closers = (Tag.BLOCK_OPEN, Tag.PLAN_OPEN, Tag.PATH_CLOSE)
        if tag in closers and self.top and self.top.phase is Phase.CONCLUDED:
            return self._pop(), Irregular.BLOCK_WITHOUT_END
        return self, None

    def _text(self, ids: Ids) -> Machine:
        top = self.top
        if top and top.phase is Phase.OUTLINE:
            return self._count(ids, outline=top.outline + ids)
        if top and top.phase is Phase.PLAN:
            return self._count(ids)
        return self if self.irregular is None else replace(self, irregular=None)

    def _concluded(self) -> Machine:
        """The conclusion is closed; so is the block where the dialect has no tag for that."""
        if Tag.BLOCK_CLOSE in self.grammar.tags:
            return self._set(phase=Phase.CONCLUDED)
        return self._pop()

    def _pop(self) -> Machine:
        return replace(self, stack=self.stack[:-1], irregular=None)

    def _push(self, block: OpenBlock, irregular: Irregular | None) -> Machine:
        return replace(self, stack=(*self.stack, block), irregular=irregular)

    def _set(self, irregular: Irregular | None = None, **changes: Any) -> Machine:
        top = replace(self.stack[-1], **changes)
        return replace(self, stack=(*self.stack[:-1], top), irregular=irregular)

    def _count(self, ids: Ids, **changes: Any) -> Machine:
        return self._set(plan_tokens=self.stack[-1].plan_tokens + len(ids), **changes)
