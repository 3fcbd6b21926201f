"""Random token sequences of every dialect, read and served: what must hold whatever is written.

The vocabulary carries the tags of all dialects at once, each as one id or as several, so a
sequence mixes dialects, pieces of tags and text. An example follows from its seed alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from random import Random

from multiverse_shared.dialect import Dialect, Tag, dialect_names, load_dialect
from multiverse_shared.effects import Kind
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular, Machine, Phase, Verdict
from multiverse_shared.reader import read
from multiverse_shared.reading import Incomplete
from multiverse_shared.scanner import TagScanner
from multiverse_shared.tree import Block, Context, Text, linearise
from tests.unit.shared.fake_engine import Record, Schedule, run
from tests.unit.shared.random_answers import assert_within_limits, paths_of

DIALECTS = tuple(dialect_names())
_SPELLINGS = sorted({tag for name in DIALECTS for tag in load_dialect(name).tags.values()})
_NAMES = sorted({name for tag in _SPELLINGS for name in re.findall(r"\w+", tag)})
_FIRST = 0x110000  # behind the last code point
EOS = _FIRST + len(_SPELLINGS) + len(_NAMES)
_TEXTS = ("a", "b ", "1:", "2.1:", "\n", "<", ">", "/", ' topic="x" tokens="12"', ' tokens="-"')

# What a model that knows its dialect writes behind a tag: tags, or "" for a text.
_USUAL: dict[Tag | str, Sequence[Tag | str]] = {
    Tag.BLOCK_OPEN: (Tag.PLAN_OPEN,),
    Tag.PLAN_OPEN: (Tag.OUTLINE_OPEN,),
    Tag.OUTLINE_OPEN: ("",),
    Tag.OUTLINE_CLOSE: (Tag.OUTLINE_OPEN, Tag.PLAN_CLOSE),
    Tag.PLAN_CLOSE: (Tag.PATH_OPEN,),
    Tag.PATH_OPEN: ("", "", Tag.BLOCK_OPEN, Tag.PLAN_OPEN, Tag.PROMISE_OPEN),
    Tag.PATH_CLOSE: (Tag.PATH_OPEN, Tag.JOIN_OPEN, Tag.BLOCK_CLOSE, Tag.SYNC),
    Tag.JOIN_OPEN: ("",),
    Tag.JOIN_CLOSE: (Tag.BLOCK_CLOSE, Tag.PATH_CLOSE),
    Tag.BLOCK_CLOSE: ("", Tag.PATH_CLOSE, Tag.BLOCK_OPEN),
    Tag.PROMISE_OPEN: ("",),
    Tag.PROMISE_CLOSE: (Tag.PATH_OPEN,),
    Tag.SYNC: ("", Tag.PROMISE_OPEN),
}
_OPENERS = (Tag.BLOCK_OPEN, Tag.PLAN_OPEN, Tag.PROMISE_OPEN, Tag.SYNC, "")
# What it writes behind a text, by the tag before: more text, what ends it, or a block in it.
_BEHIND_TEXT: dict[Tag | str, Sequence[Tag | str]] = {
    Tag.OUTLINE_OPEN: ("", Tag.OUTLINE_CLOSE, Tag.OUTLINE_CLOSE),
    Tag.PROMISE_OPEN: ("", Tag.PROMISE_CLOSE, Tag.PROMISE_CLOSE),
    Tag.PATH_OPEN: ("", Tag.PATH_CLOSE, Tag.PATH_CLOSE, *_OPENERS),
    Tag.BLOCK_CLOSE: (Tag.PATH_CLOSE, *_OPENERS),
    Tag.JOIN_OPEN: ("", Tag.JOIN_CLOSE, Tag.JOIN_CLOSE, Tag.BLOCK_OPEN),
}
# The system writes these: a served model does not.
_NOT_SERVED = (Tag.PATH_OPEN, Tag.JOIN_OPEN)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Characters are tokens. A tag is one token, or `pieces`: its brackets and its name."""

    pieces: bool

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def encode_trusted(self, text: str) -> list[int]:
        """Of a tag alone, or of text without tags."""
        if text not in _SPELLINGS:
            return self.encode(text)
        if not self.pieces:
            return [_FIRST + _SPELLINGS.index(text)]
        parts = re.findall(r"\w+|\W", text)
        names = _FIRST + len(_SPELLINGS)
        return [names + _NAMES.index(p) if p in _NAMES else ord(p) for p in parts]

    def decode(self, ids: Sequence[int]) -> str:
        told = [*_SPELLINGS, *_NAMES, "<eos>"]
        return "".join(chr(i) if i < _FIRST else told[i - _FIRST] for i in ids)


@cache
def grammar_of(dialect: str, pieces: bool) -> Grammar:
    return Grammar.bind(load_dialect(dialect), Vocabulary(pieces))


@cache
def _all_tags(pieces: bool) -> tuple[Ids, ...]:
    """The tags of all dialects."""
    return tuple(tuple(Vocabulary(pieces).encode_trusted(tag)) for tag in _SPELLINGS)


class Writer:
    """Writes on and on: by its dialect as a rule, with a share of `wildness` anything at all."""

    def __init__(
        self, grammar: Grammar, pieces: bool, rng: Random, wildness: float, *, served: bool = False
    ) -> None:
        self.ids: list[int] = []
        self._grammar = grammar
        self._anything = _all_tags(pieces)
        self._rng = rng
        self._wildness = wildness
        self._served = served
        self._tag: Tag | str = Tag.PATH_OPEN if served else Tag.BLOCK_CLOSE
        self._in_text = False

    def write(self, size: int) -> list[int]:
        """At least `size` ids in all."""
        while len(self.ids) < size:
            self.ids += self._wild() if self._rng.random() < self._wildness else self._tame()
        return self.ids

    def _tame(self) -> Sequence[int]:
        tags = self._grammar.tags
        usual = _BEHIND_TEXT.get(self._tag, _OPENERS) if self._in_text else _USUAL[self._tag]
        possible = [
            n for n in usual if n == "" or (n in tags and not (self._served and n in _NOT_SERVED))
        ]
        chosen = self._rng.choice(possible) if possible else ""
        self._in_text = chosen == ""
        if not isinstance(chosen, Tag):
            return self._text()
        self._tag = Tag.JOIN_OPEN if self._served and chosen is Tag.PLAN_CLOSE else chosen
        return tags[chosen]

    def _wild(self) -> Sequence[int]:
        """A tag of any dialect, a piece of one, a text, the end of the sequence."""
        tag = self._rng.choice(self._anything)
        kind = self._rng.random()
        if kind < 0.5:
            return tag
        if kind < 0.7:
            cut = self._rng.randint(0, len(tag))
            return tag[:cut] if kind < 0.6 else tag[cut:]
        return (EOS,) if kind < 0.75 else self._text()

    def _text(self) -> Sequence[int]:
        return [ord(character) for character in self._rng.choice(_TEXTS)]


@dataclass(slots=True)
class RandomWriters:
    """A model that writes each path on its own: a function of its seed, the path and the place."""

    grammar: Grammar
    pieces: bool
    seed: str
    wildness: float
    _writers: dict[str, Writer] = field(default_factory=dict)

    def __call__(self, path: str, index: int, last: int, banned: Ids) -> int:
        if path not in self._writers:
            rng = Random(f"{self.seed} {path}")
            self._writers[path] = Writer(self.grammar, self.pieces, rng, self.wildness, served=True)
        token = self._writers[path].write(index + 1)[index]
        return ord("a") if token in banned else token


@dataclass(slots=True)
class Tally:
    """What examples of one dialect came to."""

    examples: int = 0
    tokens: int = 0  # read, and written in served answers
    blocks: int = 0  # of trees read and of answers
    failures: int = 0

    def __iadd__(self, other: Tally) -> Tally:
        self.examples += other.examples
        self.tokens += other.tokens
        self.blocks += other.blocks
        self.failures += other.failures
        return self


@dataclass(frozen=True, slots=True)
class Example:
    """One random sequence through the reader, and one random answer through the interpreter."""

    dialect: str
    seed: str

    def check(self, tally: Tally) -> None:
        """AssertionError, or whatever the product raises, when something does not hold."""
        rng = Random(self.seed)
        pieces = rng.random() < 0.5
        grammar = grammar_of(self.dialect, pieces)
        wildness = rng.choice((0.0, 0.05, 0.2, 0.6, 1.0))
        ids = tuple(Writer(grammar, pieces, rng, wildness).write(rng.randint(0, 60)))
        tally.tokens += len(ids)
        tally.blocks += check_reading(ids, grammar, rng)
        if grammar.dialect.parent_waits:
            check_machine(ids, grammar, rng)
            limits, may_fork = random_limits(rng), rng.random() < 0.9
            model = RandomWriters(grammar, pieces, self.seed, wildness)
            answer = Interpreter(grammar, limits, (ord("Q"),), [EOS], may_fork=may_fork)
            portions = Random(rng.random())
            schedule = Schedule(portions.choice, lambda: portions.randint(0, 9), rng.randint(1, 6))
            record = run(answer, model, schedule)
            tally.tokens += len(linearise(record.context))
            tally.blocks += check_answer(record, limits, may_fork=may_fork)


def random_limits(rng: Random) -> Limits:
    total = rng.randint(0, 120)
    return Limits(
        max_total_tokens=total,
        max_critical_tokens=rng.choice((None, None, rng.randint(0, 120))),
        max_paths=rng.randint(1, 5),
        max_depth=rng.choice((0, 1, 2, 3, 3)),
        max_path_tokens=rng.choice((4096, 4096, rng.randint(1, 60))),
        max_goal_tokens=rng.choice((1024, 1024, rng.randint(1, 40))),
        max_blocks=rng.choice((0, 1, 2, 8, 64)),
    )


def check_reading(ids: Ids, grammar: Grammar, rng: Random) -> int:
    """Every id is in the tree once and in order, and the tree is whole. Returns its blocks."""
    start = rng.randint(0, 30)
    reading = read(iter(ids), grammar, Limits(max_paths=rng.randint(1, 5)), start)
    assert linearise(reading.context) == ids
    known = {*map(str, Irregular), *map(str, Incomplete)}
    assert {str(name) for name in reading.irregular} <= known
    assert all(times > 0 for times in reading.irregular.values())
    places = positions(reading.context, start)
    assert len(places) == len(ids)
    assert sum(segment.stop - segment.start for segment in visibility(reading.context)) == len(ids)
    assert not ids or next_position(reading.context, start) >= start
    return check_blocks(reading.context, grammar.dialect)


def check_blocks(context: Context, dialect: Dialect) -> int:
    """All blocks are closed, have paths and lie as their dialect says. Returns how many."""
    found = 0
    for _, items in paths_of(context):
        for block in (item for item in items if isinstance(item, Block)):
            found += 1
            assert block.closed
            assert block.paths
            assert (block.rule, block.path_offset, block.join_offset) == (
                dialect.rule,
                dialect.path_offset,
                dialect.join_offset,
            )
    return found


def check_machine(ids: Ids, grammar: Grammar, rng: Random) -> None:
    """Lexemes are the ids again; blocks only stand in conclusions; plans end in forks."""
    scanner, machine = TagScanner(grammar), Machine(grammar, is_path=rng.random() < 0.5)
    seen: list[int] = []
    lexemes = [lexeme for token in ids for lexeme in scanner.feed(token)] + scanner.flush()
    for lexeme in lexemes:
        assert lexeme.tag is None or grammar.tags[lexeme.tag] == lexeme.ids
        seen += lexeme.ids
        machine, verdict = machine.step(lexeme)
        if verdict is Verdict.PATH_CLOSED:
            assert machine.is_path
            assert not machine.stack
        if verdict is Verdict.PLAN_CLOSED:
            assert machine.top is not None
            assert machine.top.phase is Phase.FORKED
            machine = machine.joined() if rng.random() < 0.8 else machine.abandoned()
        assert all(block.phase is Phase.CONCLUSION for block in machine.stack[:-1])
        assert machine.top is None or machine.top.phase is not Phase.FORKED
    assert tuple(seen) == ids


def check_answer(record: Record, limits: Limits, *, may_fork: bool) -> int:
    """Limits hold, and each path says just what its branches sampled. Returns its blocks."""
    assert_within_limits(record, limits, may_fork=may_fork)
    for path, items in paths_of(record.context[1:]):
        own = [text for text in items if isinstance(text, Text)]
        told = tuple(token for text in own if not text.written for token in text.ids)
        assert told == record.said(path, Kind.TEXT, Kind.TAG) == sampled(record, path)
        whole = tuple(token for text in own for token in text.ids)
        assert whole == record.said(path)
    return check_blocks(record.context, record.interpreter.grammar.dialect)


def sampled(record: Record, path: str) -> Ids:
    """What the branches of a path sampled; of an aborted one what counted, no end of sequence."""
    out: list[int] = []
    starts = [start for start in record.starts.values() if start.path == path]
    for start, follower in zip_longest(starts, starts[1:]):
        ids = record.decoded[start.branch].ids
        if start.branch not in record.aborted:
            kept = ids[:-1] if ids and ids[-1] == EOS else ids
            assert follower is None or follower.draws == start.draws + len(kept)
        elif follower is not None:
            kept = ids[: follower.draws - start.draws]
        else:  # its plan was closed for it, and nothing was left to go on with
            kept = record.said(path, Kind.TEXT, Kind.TAG)[len(out) :]
            assert ids[: len(kept)] == kept
        out += kept
    return tuple(out)
