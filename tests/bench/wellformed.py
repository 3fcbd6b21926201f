"""Whether an answer's tags are well-formed: a small parser of the linear text, from the grammar.

answer := text | block text ...; block := <Parallel> goal path+ conclusion </Parallel>
Written apart from the product's interpreter, which it judges.
"""

from __future__ import annotations

import re

_TAGS = re.compile(r"</?(?:Parallel|Goal|Outline|Path|Conclusion)>")


def wellformed(text: str) -> bool:
    """True when every tag stands where the grammar wants it, with as many paths as outlines."""
    tags = _TAGS.findall(text)
    try:
        rest = _blocks(tags, 0)
    except IndexError:
        return False
    return rest == len(tags)


def _blocks(tags: list[str], at: int) -> int:
    """Skip blocks; returns where the first tag stands that does not open one. -1: malformed."""
    while at >= 0 and at < len(tags) and tags[at] == "<Parallel>":
        at = _block(tags, at + 1)
    return at


def _block(tags: list[str], at: int) -> int:
    at = _expect(tags, at, "<Goal>")
    outlines = 0
    while tags[at] == "<Outline>":
        at = _expect(tags, at + 1, "</Outline>")
        outlines += 1
    at = _expect(tags, at, "</Goal>")
    for _ in range(outlines):
        at = _body(tags, at, "Path")
    at = _body(tags, at, "Conclusion")
    return _expect(tags, at, "</Parallel>") if outlines else _fail()


def _body(tags: list[str], at: int, name: str) -> int:
    at = _expect(tags, at, f"<{name}>")
    return _expect(tags, _blocks(tags, at), f"</{name}>")


def _expect(tags: list[str], at: int, tag: str) -> int:
    return at + 1 if tags[at] == tag else _fail()


def _fail() -> int:
    raise IndexError("malformed")
