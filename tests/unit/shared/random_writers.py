"""Models that write random token sequences of any dialect, mixed with those of all others.

The vocabulary carries the tags of all dialects at once, each as one id or as several, so a
sequence mixes dialects, pieces of tags and text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from multiverse_shared.dialect import Tag, dialect_names, load_dialect
from multiverse_shared.grammar import Grammar, Ids

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
