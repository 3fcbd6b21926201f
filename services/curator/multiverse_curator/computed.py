"""Numbers in a text: which are computed there, and which are used though computed elsewhere.

Knows digits and signs of equality. Must not know what a text means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w]*[A-Za-z])|\d+(?:\.\d+)?")
_RESULT = re.compile(
    r"(?:=|≈|\\approx|:=|→|\bis|\bequals|\bgives|\bget|\bgot|\bobtain|\bmakes|\byields|为|是|得|得到|等于)"
    r"\s*(?:\\?[\[({]\s*|\$|\\boxed\{|about |exactly |-)*$"
)
_TAIL = 24  # characters before a number that tell whether it is a result


def used_from(sibling: str, path: str, given: str, smallest: int) -> list[str]:
    """Numbers that `path` uses, that only `sibling` computes, in order of use.

    A number of `given` (the question, what stands before the fork) is known to all. A path that
    reaches a number as a result computed it by itself. Numbers below `smallest` are everywhere
    and tell nothing.
    """
    foreign = results(sibling) - set(values(given))
    found: list[str] = []
    own: set[str] = set()
    for number, is_result in occurrences(path):
        if is_result:
            own.add(number)
        elif number in foreign and number not in own and float(number) >= smallest:
            found.append(number)
            own.add(number)
    return found


def values(text: str) -> list[str]:
    """Every number of the text, as written without separators of thousands."""
    return [_plain(match.group()) for match in _NUMBER.finditer(text)]


def results(text: str) -> set[str]:
    """Numbers that the text reaches by an equation or says something is."""
    return {number for number, is_result in occurrences(text) if is_result}


def occurrences(text: str) -> Iterable[tuple[str, bool]]:
    """Each number in order, and whether it stands where a result stands."""
    for match in _NUMBER.finditer(text):
        before = text[max(0, match.start() - _TAIL) : match.start()]
        yield _plain(match.group()), bool(_RESULT.search(before))


def _plain(number: str) -> str:
    return number.replace(",", "").rstrip(".")
