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

from multiverse_shared.errors import InvalidRequest

_PLANES = (0xF0000, 0x100000)  # texts take turns, so that neighbours stay apart
_PLANE_SIZE = 0xFFFE
_RUNS = re.compile("([\U000f0000-\U000fffff]+|[\U00100000-\U0010ffff]+)")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered prompt by one author."""

    text: str
    from_client: bool


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
    """The disguises of one request."""

    def __init__(self) -> None:
        self._tables: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self._texts = 0

    def put_on(self, text: str) -> DisguisedText:
        """`text` as a template may have it. InvalidRequest for more characters than a plane has."""
        turn = self._texts % len(_PLANES)
        self._texts += 1
        table = self._tables[turn]
        for code in sorted(set(map(ord, text)) - table.keys()):
            table[code] = _PLANES[turn] + len(table)
        if len(table) > _PLANE_SIZE:
            raise InvalidRequest(
                f"the messages have more than {_PLANE_SIZE} different characters; send fewer",
                field="messages",
            )
        return DisguisedText.of(text.translate(table), text)

    def take_off(self, rendered: str) -> Iterator[Piece]:
        """Who wrote what. InvalidRequest when the template itself wrote in disguise."""
        behind = {shown: code for table in self._tables for code, shown in table.items()}
        for number, run in enumerate(_RUNS.split(rendered)):
            from_client = number % 2 == 1
            if from_client and not behind.keys() >= set(map(ord, run)):
                raise InvalidRequest(
                    "the model's chat template writes characters of private-use planes",
                    field="messages",
                )
            if run:
                yield Piece(run.translate(behind) if from_client else run, from_client)


def _spaces(chars: str | None) -> str | None:
    """What a template may trim."""
    return None if chars is None else "".join(filter(str.isspace, chars))
