"""The layout of a tree worked out token by token from the definitions of the join rules.

Written apart from the product, which it judges; quadratic and plain. A context is read as a
row of marks: a token, the opening of a block, the beginning of one of its paths, its end.

- stitch: a path starts right after the token before its block (+ path_offset); the token after a
  block stands one after the largest position reached inside it (+ join_offset).
- reserve: the same, but a text with a start stands there.
- linear: an open block is laid out as under stitch; a closed one is its plain text, so it
  leaves no marks.
- A token sees every earlier one, but none in a sibling of a path that it is in itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multiverse_shared.layout import Segment
from multiverse_shared.tree import Block, Context, JoinRule, Text

Forks = dict[int, int]  # block -> the path of it that a token is in


@dataclass(frozen=True, slots=True)
class Token:
    start: int | None  # where it says itself that it stands


@dataclass(frozen=True, slots=True)
class Opening:
    block: int


@dataclass(frozen=True, slots=True)
class PathStart:
    block: int
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class End:
    block: int
    offset: int


Mark = Token | Opening | PathStart | End


class Definition:
    """What the definitions say about one context whose first token stands at `start`."""

    def __init__(self, context: Context, start: int = 0, *, history: bool = False) -> None:
        """With `history` closed linear blocks count as the forks they once were."""
        self._start = start
        self._history = history
        self._blocks = 0
        self._marks = list(self._read(context))
        self._tokens = [m for m, mark in enumerate(self._marks) if isinstance(mark, Token)]
        self._place: dict[int, int] = {}  # mark of a token -> its position
        for m in self._tokens:
            mark = self._marks[m]
            assert isinstance(mark, Token)
            self._place[m] = self._next(m - 1) if mark.start is None else mark.start

    @property
    def positions(self) -> list[int]:
        return [self._place[m] for m in self._tokens]

    @property
    def next_position(self) -> int:
        return self._next(len(self._marks) - 1)

    @property
    def visible(self) -> list[str]:
        """A row of 0 and 1 for each token: which tokens it sees, itself included."""
        forks = [self._forks(m) for m in self._tokens]
        size = range(len(forks))
        return ["".join("01"[j <= i and together(forks[i], forks[j])] for j in size) for i in size]

    @property
    def critical(self) -> int:
        """Tokens on the longest chain in which each had to wait for the one before it."""
        forks = [self._forks(m) for m in self._tokens]
        chains: list[int] = []
        for i, mine in enumerate(forks):
            before = [chains[j] for j in range(i) if together(mine, forks[j])]
            chains.append(1 + max(before, default=0))
        return max(chains, default=0)

    def _read(self, context: Context) -> Iterator[Mark]:
        for item in context:
            if isinstance(item, Text):
                yield from (Token(item.start if n == 0 else None) for n in range(len(item.ids)))
            elif item.rule is JoinRule.LINEAR and item.closed and not self._history:
                for path in item.paths:
                    yield from self._read(path)
            else:
                yield from self._read_block(item)

    def _read_block(self, block: Block) -> Iterator[Mark]:
        self._blocks += 1
        name = self._blocks
        yield Opening(name)
        for number, path in enumerate(block.paths):
            yield PathStart(name, number, block.path_offset)
            yield from self._read(path)
        yield End(name, block.join_offset)

    def _next(self, m: int) -> int:
        """Where a token right behind mark number `m` stands; -1 is the beginning."""
        if m < 0:
            return self._start
        match self._marks[m]:
            case Token():
                return self._place[m] + 1
            case PathStart(block, _, offset):
                return self._before(block) + offset
            case End(block, offset):
                opening = self._marks.index(Opening(block))
                inside = [self._place[t] for t in self._tokens if opening < t < m]
                return (1 + max(inside) if inside else self._before(block)) + offset
        raise AssertionError("no token stands right behind the opening of a block")

    def _before(self, block: int) -> int:
        """Where a token would stand in place of the block."""
        return self._next(self._marks.index(Opening(block)) - 1)

    def _forks(self, m: int) -> Forks:
        """The paths that mark number `m` is in."""
        inside: Forks = {}
        for mark in self._marks[:m]:
            if isinstance(mark, PathStart):
                inside[mark.block] = mark.number
            elif isinstance(mark, End):
                del inside[mark.block]
        return inside


def together(one: Forks, other: Forks) -> bool:
    """Whether two tokens are in no two sibling paths."""
    return all(one[block] == other[block] for block in one.keys() & other.keys())


def rows(segments: list[Segment]) -> list[str]:
    """The product's segments as such rows; they must tile the tokens in order."""
    size = segments[-1].stop if segments else 0
    matrix: list[str] = []
    for segment in segments:
        assert segment.start == len(matrix) < segment.stop, "segments tile the tokens"
        for index in range(segment.start, segment.stop):
            seen = {j for start, stop in segment.visible for j in range(start, stop)}
            seen |= set(range(segment.start, index + 1))
            matrix.append("".join("01"[j in seen] for j in range(size)))
    return matrix
