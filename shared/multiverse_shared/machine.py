"""The state machine of one path: which tags are legal now, and what they do.

Works on token ids. A tag that is not legal in the present phase is literal text. Knows no
budgets and no siblings (see `interpreter`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids


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
    """What a token turned out to be."""

    TEXT = "text"
    TAG = "tag"
    PLAN_CLOSED = "plan_closed"  # a legal end of the plan: fork
    PATH_CLOSED = "path_closed"  # a legal end of the path


@dataclass(frozen=True, slots=True)
class Machine:
    """State of one path; `step` gives the next state and what the token was."""

    grammar: Grammar
    is_path: bool  # false for the root, which no tag can close
    stack: tuple[OpenBlock, ...] = field(default=())

    @property
    def top(self) -> OpenBlock | None:
        return self.stack[-1] if self.stack else None

    @property
    def planning(self) -> OpenBlock | None:
        """The block whose plan is being written, if there is one."""
        top = self.top
        return top if top and top.phase in (Phase.PLAN, Phase.OUTLINE) else None

    def step(self, token: int) -> tuple[Machine, Verdict]:
        """Read one token id that the model wrote."""
        tag = self.grammar.tag_of.get(token)
        top = self.top
        phase = top.phase if top else None
        match tag, phase:
            case Tag.BLOCK_OPEN, (None | Phase.CONCLUSION):
                return self._push(OpenBlock(Phase.OPENED)), Verdict.TAG
            case Tag.PLAN_OPEN, Phase.OPENED:
                return self._set(phase=Phase.PLAN), Verdict.TAG
            case Tag.OUTLINE_OPEN, Phase.PLAN:
                return self._count(phase=Phase.OUTLINE, outline=()), Verdict.TAG
            case Tag.OUTLINE_CLOSE, Phase.OUTLINE:
                assert top is not None
                outlines = (*top.outlines, top.outline)
                return self._count(phase=Phase.PLAN, outlines=outlines, outline=()), Verdict.TAG
            case Tag.PLAN_CLOSE, Phase.PLAN:
                return self._set(phase=Phase.FORKED), Verdict.PLAN_CLOSED
            case Tag.JOIN_CLOSE, Phase.CONCLUSION:
                return self._set(phase=Phase.CONCLUDED), Verdict.TAG
            case Tag.BLOCK_CLOSE, Phase.CONCLUDED:
                return replace(self, stack=self.stack[:-1]), Verdict.TAG
            case Tag.PATH_CLOSE, None if self.is_path:
                return self, Verdict.PATH_CLOSED
        if top and phase is Phase.OUTLINE:
            return self._count(outline=(*top.outline, token)), Verdict.TEXT
        if phase is Phase.PLAN:
            return self._count(), Verdict.TEXT
        return self, Verdict.TEXT

    def close_plan(self) -> Machine:
        """The system closes the plan; an outline that is still open does not count."""
        return self._set(phase=Phase.FORKED, outline=())

    def joined(self) -> Machine:
        """The paths have ended and the join header is written."""
        return self._set(phase=Phase.CONCLUSION, outlines=())

    def _push(self, block: OpenBlock) -> Machine:
        return replace(self, stack=(*self.stack, block))

    def _set(self, **changes: Any) -> Machine:
        top = replace(self.stack[-1], **changes)
        return replace(self, stack=(*self.stack[:-1], top))

    def _count(self, **changes: Any) -> Machine:
        return self._set(plan_tokens=self.stack[-1].plan_tokens + 1, **changes)
