"""Random token sequences of every dialect, read and served: what must hold whatever is written.

An example follows from its seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from multiverse_shared.dialect import Dialect
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
from tests.unit.shared.random_writers import EOS, RandomWriters, Writer, grammar_of


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
            answer = Interpreter(grammar, limits, (Text((ord("Q"),)),), [EOS], may_fork=may_fork)
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
