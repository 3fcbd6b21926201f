"""Earlier answers as trees again: the text of an assistant's message, read by its dialect.

The ids must be those that serving made, or the KV of the turn can't be found: every template and
every body is encoded alone (see `multiverse_shared.encode`). Only the dialect's tags become control
ids, and only in a text that is well-formed throughout.
"""

from __future__ import annotations

import re

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Context, normalise

_LABEL = r"[0-9]+(?:\.[0-9]+)*"
_CLOSERS = frozenset({Tag.OUTLINE_CLOSE, Tag.PATH_CLOSE, Tag.JOIN_CLOSE, Tag.BLOCK_CLOSE})
_TAGS_OF_A_BLOCK = 6  # besides the four of each of its paths


class HistoryReader:
    """Reads texts by the grammar of a dialect with plans.

    What breaks `limits` or has more than `max_tokens` is no tree; the work is bounded by them.
    """

    def __init__(self, grammar: Grammar, limits: Limits, max_tokens: int) -> None:
        dialect = grammar.dialect
        self._grammar = grammar
        self._limits = limits
        self._max_tokens = max_tokens
        self._max_tags = limits.max_blocks * (_TAGS_OF_A_BLOCK + 4 * limits.max_paths)
        self._tag_of = {spelling: tag for tag, spelling in dialect.tags.items()}
        longest_first = sorted(self._tag_of, key=len, reverse=True)
        self._tags = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        gap = f"(?:{re.escape(dialect.separator)})?"
        # What begins the text behind a tag and is encoded apart. The model may leave its part out;
        # what the system writes must be there, and behind plans and paths nothing else.
        behind = {
            Tag.BLOCK_OPEN: gap,
            Tag.PLAN_OPEN: gap,
            Tag.OUTLINE_OPEN: f"(?:{_labelled(dialect.outline_label)})?",
            Tag.OUTLINE_CLOSE: gap,
            Tag.PLAN_CLOSE: re.escape(dialect.after_plan) + r"\Z",
            Tag.PATH_CLOSE: re.escape(dialect.path_tail) + r"\Z",
        }
        for template in (dialect.path_header, dialect.join_header):
            *tags, rest = self._tags.split(template)
            if tags:
                behind[self._tag_of[tags[-1]]] = _labelled(rest)
        self._behind = {tag: re.compile(pattern) for tag, pattern in behind.items()}

    def read(self, text: str) -> Context | None:
        """The tree of `text` in normal form; None when it has no block or is ill-formed."""
        if self._grammar.dialect.tags[Tag.PLAN_CLOSE] not in text:
            return None
        ids = self._ids(self._tags.split(text))
        if ids is None:
            return None
        reading = read(ids, self._grammar, self._limits)
        return None if reading.irregular else normalise(reading.context)

    def _ids(self, pieces: list[str]) -> list[int] | None:
        """Ids of texts and tags in turn; None when limits or the system's templates are broken."""
        tags = [self._tag_of[spelling] for spelling in pieces[1::2]]
        if len(tags) > self._max_tags or tags.count(Tag.PLAN_CLOSE) > self._limits.max_blocks:
            return None
        ids: list[int] = []
        depth = 0
        plan: int | None = None  # where the open one began
        # A plan that was cut off at the limit has one closing tag more.
        longest = self._limits.max_goal_tokens + len(self._grammar.tags[Tag.OUTLINE_CLOSE])
        for text, behind, before in zip(pieces[::2], [None, *tags], [*tags, None], strict=True):
            parts = self._parts(behind, text, before)
            if parts is None:
                return None
            for part in filter(None, parts):
                ids.extend(self._grammar.tokenizer.encode(part))
            depth += (before is Tag.PATH_OPEN) - (behind is Tag.PATH_CLOSE)
            if len(ids) > self._max_tokens or not 0 <= depth <= self._limits.max_depth:
                return None
            if plan is not None and len(ids) - plan > longest:
                return None
            if before is None:
                break
            ids.extend(self._grammar.tags[before])
            if before in (Tag.PLAN_OPEN, Tag.PLAN_CLOSE):
                plan = len(ids) if before is Tag.PLAN_OPEN else None
        return ids

    def _parts(self, behind: Tag | None, text: str, before: Tag | None) -> tuple[str, ...] | None:
        """The text between two tags, cut where serving encodes apart; None if it can't be."""
        start = 0
        if behind in self._behind:
            found = self._behind[behind].match(text)
            if found is None:
                return None
            start = found.end()
        gap = self._grammar.dialect.separator
        if gap and before in _CLOSERS and text.endswith(gap, start):
            return text[:start], text[start : -len(gap)], gap
        return text[:start], text[start:]


def _labelled(template: str) -> str:
    """A pattern for a template with any label in it."""
    return _LABEL.join(map(re.escape, template.split("{label}")))
