"""What an answer looks like: whether it forks, whether its tags are in order, how parallel it is.

Read from the text, so that any server can be judged. What the server says of its own answer
comes first (`Reply`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar, Tokenizer
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Block, Context, Text
from multiverse_shared.usage import usage


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one answer; counts are in tokens of the reader's tokenizer."""

    forked: bool
    malformed: bool
    parallelism: float
    live: tuple[int, ...]  # paths that are decoded in each step, first to last


class ShapeReader:
    """For the answers of one dialect. Without a tokenizer tokens are characters and tags."""

    def __init__(self, dialect: str, tokenizer: Tokenizer | None = None) -> None:
        self.dialect = dialect
        loaded = load_dialect(dialect)
        self._tokenizer = tokenizer or CharacterTokenizer(loaded)
        self._grammar = Grammar.bind(loaded, self._tokenizer)

    def shape(self, text: str) -> Shape:
        reading = read(self._tokenizer.encode_trusted(text), self._grammar, Limits())
        context = reading.context
        return Shape(
            forked=any(isinstance(item, Block) for item in context),
            malformed=bool(reading.irregular),
            parallelism=usage(context).parallelism,
            live=tuple(_live(context)),
        )


def _live(context: Context) -> list[int]:
    """Paths that each step decodes; what the system writes takes one step together."""
    out: list[int] = []
    for item in context:
        if isinstance(item, Text):
            out += [1] if item.written and item.ids else [1] * len(item.ids)
        else:
            paths = [_live(path) for path in item.paths]
            out += [sum(at_once) for at_once in zip_longest(*paths, fillvalue=0)]
    return out
