"""Client text in disguise: what a chat template handles in its place.

Every character is exchanged for one of the last two planes of Unicode. So whatever a template
does with a text (cuts it, joins it, turns it around), each character that comes out tells by
itself whether the client or the template wrote it, and no condition of a template reads what a
client wrote. All that a template can see is how long a text is and the white space at its ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from multiverse_shared.errors import InvalidRequest

_FIRST, _LAST = 0xF0000, 0x10FFFF
_RUNS = re.compile("([\U000f0000-\U0010ffff]+)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered prompt by one author."""

    text: str
    message: int | None  # whose text it is, by place in the chat; None: the template's own


class DisguisedText(str):
    """The disguise is its value; trimming goes by the text behind it."""

    __slots__ = ("_behind",)
    _behind: str

    @classmethod
    def of(cls, shown: str, behind: str) -> DisguisedText:
        """Both are equally long."""
        text = cls(shown)
        text._behind = behind
        return text

    def strip(self, chars: str | None = None, /) -> DisguisedText:
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> DisguisedText:
        start = len(self) - len(self._behind.lstrip(_spaces(chars)))
        return self.of(self[start:], self._behind[start:])

    def rstrip(self, chars: str | None = None, /) -> DisguisedText:
        stop = len(self._behind.rstrip(_spaces(chars)))
        return self.of(self[:stop], self._behind[:stop])


class Disguise:
    """The disguises of one request: every message has characters of its own."""

    def __init__(self) -> None:
        self._behind: dict[int, int] = {}
        self._message: dict[str, int] = {}

    def put_on(self, text: str, message: int) -> DisguisedText:
        """`text` as a template may have it. InvalidRequest when there are no characters left."""
        codes = sorted(set(map(ord, text)))
        first = _FIRST + len(self._behind)
        if first + len(codes) > _LAST + 1:
            raise InvalidRequest(
                f"the messages have more than {_LAST + 1 - _FIRST} different characters, counted "
                "for each message; send fewer",
                field="messages",
            )
        table = {code: shown for shown, code in enumerate(codes, first)}
        self._behind |= {shown: code for code, shown in table.items()}
        self._message |= {chr(shown): message for shown in table.values()}
        return DisguisedText.of(text.translate(table), text)

    def take_off(self, rendered: str) -> Iterator[Piece]:
        """Who wrote what. InvalidRequest when the template itself wrote in disguise."""
        for number, run in enumerate(_RUNS.split(rendered)):
            if number % 2 == 0:
                if run:
                    yield Piece(run, None)
                continue
            if not self._message.keys() >= set(run):
                raise InvalidRequest(
                    "the model's chat template writes characters of private-use planes",
                    field="messages",
                )
            for message, shown in groupby(run, self._message.__getitem__):
                yield Piece("".join(shown).translate(self._behind), message)


def _spaces(chars: str | None) -> str | None:
    """What a template may trim."""
    return None if chars is None else "".join(filter(str.isspace, chars))
