"""Numbers in a text: which are computed there, and which are used though computed elsewhere.

Knows digits and signs of equality. Must not know what a text means.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w]*[A-Za-z])|\d+(?:\.\d+)?")
_OPENING = r"\s*(?:\\?[\[({]\s*|\$|\\boxed\{|about |exactly |-)*$"
_EQUALS = re.compile(rf"(?:=|≈|\\approx|→|\bequals|\bgives|\bmakes|\byields|得到?|等于){_OPENING}")
_IS = re.compile(rf"(?:\bis|\bget|\bgot|\bobtain|为|是){_OPENING}")
_TAIL = 24  # characters before a number that tell whether it is a result


@dataclass(frozen=True, slots=True)
class Occurrence:
    number: str
    computed: bool  # stands behind a sign of equality
    stated: bool  # stands where a result may stand


def used_from(sibling: str, path: str, given: Set[str], smallest: int) -> list[str]:
    """Numbers that `path` uses, that only `sibling` computes, in order of use.

    The numbers of `given` (in the question, in what stands before the fork) are known to all. A
    path that reaches a number behind a sign of equality computed it by itself; one that merely
    says that something is so much may have it from the sibling. Numbers below `smallest` are
    everywhere and tell nothing.
    """
    foreign = results(sibling) - given
    if not foreign:
        return []
    found: list[str] = []
    own: set[str] = set()
    for at in occurrences(path):
        if at.computed:
            own.add(at.number)
        elif at.number in foreign - own and float(at.number) >= smallest:
            found.append(at.number)
            own.add(at.number)
    return found


def values(text: str) -> list[str]:
    """Every number of the text, as written without separators of thousands."""
    return [_plain(match.group()) for match in _NUMBER.finditer(text)]


# Each path is compared with all of its siblings, hence the caches.
@lru_cache(maxsize=64)
def results(text: str) -> frozenset[str]:
    """Numbers that the text reaches by an equation or says something is."""
    return frozenset(at.number for at in occurrences(text) if at.stated)


@lru_cache(maxsize=64)
def occurrences(text: str) -> tuple[Occurrence, ...]:
    """Each number in order."""
    found = []
    for match in _NUMBER.finditer(text):
        before = text[max(0, match.start() - _TAIL) : match.start()]
        computed = bool(_EQUALS.search(before))
        stated = computed or bool(_IS.search(before))
        found.append(Occurrence(_plain(match.group()), computed, stated))
    return tuple(found)


def _plain(number: str) -> str:
    return number.replace(",", "").rstrip(".")
