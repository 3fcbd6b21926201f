"""Finds the tags in a stream of token ids.

The only place that knows that a tag may be several ids. Knows no phases: whether a tag is
legal where it stands is for `machine` to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.dialect import Tag
from multiverse_shared.grammar import Grammar, Ids


@dataclass(frozen=True, slots=True)
class Lexeme:
    """Neighbouring ids that are one tag, or text."""

    ids: Ids
    tag: Tag | None = None


@dataclass(slots=True)
class TagScanner:
    """Ids go in one by one; lexemes come out as soon as it is clear what they are.

    `pending` may be the beginning of a tag. Tags of one id never wait.
    """

    grammar: Grammar
    pending: Ids = ()

    def feed(self, token: int) -> list[Lexeme]:
        """What is clear now: perhaps text, then perhaps a tag."""
        ids = (*self.pending, token)
        for at in range(len(ids)):
            end = ids[at:]
            tag = self.grammar.tag_of.get(end)
            if tag is not None:
                self.pending = ()
                return [*_text(ids[:at]), Lexeme(end, tag)]
            if end in self.grammar.beginnings:
                self.pending = end
                return _text(ids[:at])
        self.pending = ()
        return [Lexeme(ids)]

    def flush(self) -> list[Lexeme]:
        """Nothing follows: what was pending is text."""
        ids, self.pending = self.pending, ()
        return _text(ids)


def _text(ids: Ids) -> list[Lexeme]:
    return [Lexeme(ids)] if ids else []
