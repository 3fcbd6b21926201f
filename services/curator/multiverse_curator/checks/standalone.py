"""Whether a rewritten path can be read alone, and is still the path it was.

Looks for words that point at a sibling (English and Chinese), for numbers that only a sibling
computes, and for sentences and numbers that were dropped or invented. Rules of form, not of
meaning: what they let pass, the likelihood of `independence` may show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from multiverse_curator.answers import Rewrite
from multiverse_curator.checks.content import compare
from multiverse_curator.computed import used_from, values
from multiverse_curator.faults import Fault, Stage

MAX_REWORDING = 0.4  # edit distance between a path before and after
LONGEST_OUTLINE = 300  # characters
SMALLEST_TOLD = 10  # numbers below tell nothing about where they come from

_EARLIER = r"(?:first|second|third|fourth|previous|other|earlier|former|preceding)"
_THING = r"(?:case|path|branch|approach|method|option|scenario|alternative|part|calculation|one)"
_SIBLING = re.compile(
    rf"""
      \b(?:similarly|likewise|analogously)\b
    | \bin\ the\ same\ (?:way|manner|fashion)\b
    | \bthe\ same\ (?:argument|reasoning|logic|steps|approach)\b
    | \bby\ (?:symmetry|analogy)\ (?:with|to)\b
    | \bas\ (?:we\ )?(?:already|just)\ (?:shown|seen|computed|found|did|saw)\b
    | \b(?:as|like|unlike|than)\ (?:in|with|for|before|above|we\ did)
      \ (?:the\ )?(?:{_EARLIER}|last|same)\ {_THING}s?\b
    | \b(?:as|like)\ (?:before|above)\b
    | \b(?:from|by|using|to|with)\ (?:the\ )?{_EARLIER}\ {_THING}s?\b
    | \b(?:(?:as|like)\ in|from|using|by|unlike)
      \ (?:case|path|branch|approach|method|option)\ [\dA-Z]\b
    | \bthe\ (?:other|previous|preceding|former)\ (?:two\ |three\ )?
      (?:case|path|branch|approach|method|option|alternative)s?\b
    | 同理 | 同样地 | 类似地 | 类似的 | 与上面(?:相同|一样) | 如上(?:所述)?
    | (?:与|和|由|从|根据|按照|像)(?:前|上|第)[一二三两个]*(?:种|个)?(?:情况|情形|方法|路径|分支)
    | 前(?:一|两|面)(?:种|个)?(?:情况|情形|方法)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def sibling_references(text: str) -> list[str]:
    """Words that point at another path."""
    return [match.group() for match in _SIBLING.finditer(text)]


def check_rewrite(answer: Rewrite, originals: Sequence[str], given: Set[str]) -> None:
    """Fault at stage 5. `given`: numbers that every path sees, in the question and before."""
    if len(originals) < 2:
        raise _fault("a group needs at least two paths")
    if not len(answer.outlines) == len(answer.paths) == len(originals):
        raise _fault(
            f"{len(originals)} paths need as many outlines and rewritten paths, "
            f"not {len(answer.outlines)} and {len(answer.paths)}"
        )
    check_outlines(answer.outlines)
    for number, (path, original) in enumerate(zip(answer.paths, originals, strict=True), 1):
        if reason := path_fault(path, original, given):
            raise _fault(f"path {number}: {reason}")
    if reason := siblings_fault(answer.paths, given | set(values(" ".join(answer.outlines)))):
        raise _fault(reason)
    if not answer.conclusion.strip():
        raise _fault("the conclusion is empty")
    known = {*given, *(number for text in originals for number in values(text))}
    if new := [number for number in values(answer.conclusion) if number not in known]:
        raise _fault(f"the conclusion says {new[0]}, which no path does")


def check_outlines(outlines: Sequence[str]) -> None:
    lines = [outline.strip() for outline in outlines]
    for number, line in enumerate(lines, 1):
        if not line:
            raise _fault(f"outline {number} is empty")
        if len(line) > LONGEST_OUTLINE or "\n" in line:
            raise _fault(f"outline {number} is not one short line")
    if len(set(lines)) < len(lines):
        raise _fault("two outlines are the same")


def path_fault(path: str, original: str, given: Set[str]) -> str:
    """What is wrong with one rewritten path, or nothing."""
    if not path.strip():
        return "it is empty"
    if words := sibling_references(path):
        return f"{words[0]!r} points at another path"
    if reason := compare(original, path).fault(MAX_REWORDING):
        return reason
    known = set(values(original))
    if new := [number for number in values(path) if number not in known and number not in given]:
        return f"the number {new[0]} is not in the original"
    if lost := known - set(values(path)):
        return f"the number {min(lost)} of the original is missing"
    return ""


def siblings_fault(paths: Sequence[str], given: Set[str]) -> str:
    """Numbers that a path can only have from a sibling."""
    for number, path in enumerate(paths, 1):
        for other, sibling in enumerate(paths, 1):
            if other != number and (used := used_from(sibling, path, given, SMALLEST_TOLD)):
                return f"path {number} uses {used[0]}, which only path {other} computes"
    return ""


def _fault(reason: str) -> Fault:
    return Fault(Stage.REWRITE, reason)
