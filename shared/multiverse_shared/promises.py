"""Reads answers of dialects whose parent does not wait: PASTA (arXiv 2502.11517).

A promise, with its attributes between two tags, forks one path (the text of which follows it in
linear order), and the parent writes on as the last path of the same block. A second promise
before the sync forks again, inside that last path; the sync closes all of these blocks:

    a <promise topic=".." tokens="20"/> <async>..</async> b <sync/> c
    = a, Block(paths = [async, b]), c

The sync itself stands in the last path: the parent writes it before it sees the others. Under
rule "reserve" the parent goes on as many positions later as it promised tokens (in tens).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.layout import next_position
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular
from multiverse_shared.reading import Incomplete, Reading
from multiverse_shared.scanner import Lexeme
from multiverse_shared.tree import Block, Context, Item, JoinRule, Text

_ATTRIBUTE = re.compile(r"""([a-z_]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""")
_STEP = 10  # promised tokens are given in tens


def attributes(text: str) -> dict[str, str]:
    """The attributes of a promise: `topic="roots" tokens=20`. What is ill-formed is left out."""
    return {
        match[1]: next(value for value in match.groups()[1:] if value is not None)
        for match in _ATTRIBUTE.finditer(text)
    }


def promised_tokens(text: str) -> int:
    """How far the parent skips ahead: `tokens`, rounded to tens; at least one ten."""
    value = attributes(text).get("tokens", "")
    count = int(value) if value.isascii() and value.isdigit() and len(value) < 7 else 0
    return max(_STEP, (count + _STEP // 2) // _STEP * _STEP)


@dataclass(slots=True)
class _Path:
    """A path that is being read; the parent's own one continues it behind a promise."""

    at: int  # position of its first token
    is_async: bool = False
    reserved: int = 0  # tokens that the promise of this path kept for it
    continues: bool = False  # it is the last path of a block: a sync closes it
    start: int | None = None  # explicit position of its first token
    items: list[Item | list[int]] = field(default_factory=list)
    promised: Context = ()  # the path that its open block has besides its continuation

    def append(self, ids: Ids) -> None:
        if not self.items or not isinstance(self.items[-1], list):
            self.items.append([])
        run = self.items[-1]
        assert isinstance(run, list)
        run.extend(ids)

    def context(self) -> Context:
        items = [Text(tuple(i)) if isinstance(i, list) else i for i in self.items]
        if items and self.start is not None:
            first = items[0]
            assert isinstance(first, Text)
            items[0] = Text(first.ids, start=self.start)
        return tuple(items)

    @property
    def position(self) -> int:
        """Where its next token stands."""
        return next_position(self.context(), self.at)


class PromiseReader:
    """Feed it lexemes, then `end` it."""

    def __init__(self, grammar: Grammar, limits: Limits, start: int) -> None:
        self._grammar = grammar
        self._limits = limits
        self._stack = [_Path(start)]
        self._blocks = 0
        self._attributes: list[int] | None = None  # of the promise that is being read
        self._promised: int | None = None  # tokens of the promise just read
        self._irregular: Counter[str] = Counter()

    def add(self, lexeme: Lexeme) -> None:
        top = self._stack[-1]
        fulfilled = self._promised is not None and lexeme.tag is Tag.PATH_OPEN
        if self._promised is not None and not fulfilled:
            self._irregular[Incomplete.PROMISE_WITHOUT_PATH] += 1
            self._promised = None
        match lexeme.tag:
            case Tag.PROMISE_OPEN if self._attributes is None and self._may_fork():
                self._attributes = []
            case Tag.PROMISE_CLOSE if self._attributes is not None:
                text = self._grammar.tokenizer.decode(self._attributes)
                self._promised, self._attributes = promised_tokens(text), None
            case Tag.PATH_OPEN if fulfilled:
                self._fork(lexeme.ids)
                return
            case Tag.PATH_CLOSE if self._attributes is None and self._in_async():
                self._close_async(lexeme.ids)
                return
            case Tag.SYNC if self._attributes is None and top.continues:
                top.append(lexeme.ids)
                self._sync()
                return
            case None | Tag.PROMISE_CLOSE:
                if self._attributes is not None:
                    self._attributes.extend(lexeme.ids)
            case _:
                self._irregular[Irregular.STRAY_TAG] += 1
                if self._attributes is not None:
                    self._attributes.extend(lexeme.ids)
        top.append(lexeme.ids)

    def _may_fork(self) -> bool:
        """Blocks, paths open at once and depth are bounded as everywhere."""
        depth = sum(path.is_async for path in self._stack)
        since_sync = 0
        for path in reversed(self._stack):
            if not path.continues:
                break
            since_sync += 1
        return (
            self._blocks < self._limits.max_blocks
            and depth < self._limits.max_depth
            and since_sync + 1 < self._limits.max_paths
        )

    def _fork(self, header: Ids) -> None:
        assert self._promised is not None
        self._blocks += 1
        path = _Path(self._stack[-1].position, is_async=True, reserved=self._promised)
        path.append(header)
        self._promised = None
        self._stack.append(path)

    def _in_async(self) -> bool:
        """Whether the innermost path that no sync closes is a promised one."""
        return next(path for path in reversed(self._stack) if not path.continues).is_async

    def _close_async(self, closing: Ids) -> None:
        """The promised path is complete; its parent goes on beside it."""
        if self._stack[-1].continues:
            self._irregular[Incomplete.PATH_WITHOUT_SYNC] += 1
            self._stack[-1].append(closing)
            self._sync()
        else:
            self._stack[-1].append(closing)
        path = self._stack.pop()
        parent = self._stack[-1]
        parent.promised = path.context()
        at = parent.position
        reserves = self._grammar.dialect.rule is JoinRule.RESERVE
        start = at + path.reserved if reserves else None
        self._stack.append(_Path(at, continues=True, start=start))

    def _sync(self) -> None:
        """Close every block whose last path is open here."""
        while self._stack[-1].continues:
            last = self._stack.pop()
            parent = self._stack[-1]
            paths = (parent.promised, last.context())
            parent.items.append(Block(paths, self._grammar.dialect.rule))
            parent.promised = ()

    def end(self) -> Reading:
        """Close what is open."""
        if self._promised is not None:
            self._irregular[Incomplete.PROMISE_WITHOUT_PATH] += 1
        while len(self._stack) > 1:
            if self._stack[-1].continues:
                self._irregular[Incomplete.OPEN_BLOCK] += 1
                self._sync()
            else:
                self._irregular[Incomplete.PATH_WITHOUT_END] += 1
                path = self._stack.pop()
                self._stack[-1].items.append(Block((path.context(),), self._grammar.dialect.rule))
        return Reading(self._stack[0].context(), +self._irregular)
