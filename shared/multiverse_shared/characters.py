"""A tokenizer without a model: every character is a token, and so is every tag of a dialect.

For reading recorded outputs, where only text is left.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multiverse_shared.dialect import Dialect

_FIRST_TAG = 0x110000  # behind the last code point


class CharacterTokenizer:
    """Ids are code points; the tags of `dialect` stand behind them."""

    def __init__(self, dialect: Dialect) -> None:
        spellings = list(dict.fromkeys(dialect.tags.values()))
        self._ids = {spelling: _FIRST_TAG + n for n, spelling in enumerate(spellings)}
        self._spellings = {token: spelling for spelling, token in self._ids.items()}
        longest_first = sorted(spellings, key=len, reverse=True)
        self._tag = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode(self, text: str) -> list[int]:
        """Code points; tags are ordinary characters."""
        return [ord(character) for character in text]

    def encode_trusted(self, text: str) -> list[int]:
        """The same, but every spelled-out tag is its token."""
        ids: list[int] = []
        for piece in self._tag.split(text):
            ids += [self._ids[piece]] if piece in self._ids else self.encode(piece)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._spellings.get(token) or chr(token) for token in ids)
