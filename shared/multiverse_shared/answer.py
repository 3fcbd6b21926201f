"""The final answer of a text, and whether two answers are the same: `multiverse-shared[answers]`.

The last one counts: a text may quote the question, or answers that it takes back.
"""

from __future__ import annotations

import logging
import re

from math_verify import parse, verify

# Its time limits are signals, which only a main thread can have: `_is_tame` stands in for them.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_BOX = "\\boxed{"
LONGEST_ALGEBRA = 200  # characters
_WILD = re.compile(r"\^\s*\{?[^{}^]*\^|\^\s*\{?\s*\d{4,}|!|\*\*")
_SAID = re.compile(
    r"(?:^\s*\**answer\s*:?\**\s*:?|final answer(?: is)?\s*:?|答案(?:是|为)?\s*[：:]?|#)"
    r"[ \t]*([^\n]+)",
    re.IGNORECASE | re.MULTILINE,
)


def final_answer(text: str) -> str | None:
    """The last `\\boxed{..}`, else the last one announced in words (or by `#`)."""
    boxed = boxed_answers(text)
    if boxed:
        return boxed[-1]
    said = _SAID.findall(text)
    return said[-1].strip(" *.$。") if said else None


def same_answer(expected: str, given: str) -> bool:
    """Equal as text, or as mathematics where that is sure to end."""
    if _plain(expected) == _plain(given):
        return True
    if not (_is_tame(expected) and _is_tame(given)):
        return False
    gold, answer = (parse(f"\\boxed{{{text}}}", parsing_timeout=None) for text in (expected, given))
    return bool(gold and answer and verify(gold, answer, timeout_seconds=None))


def _is_tame(answer: str) -> bool:
    """No long text, tower of powers, large exponent or factorial: algebra may take for ever."""
    return len(answer) <= LONGEST_ALGEBRA and not _WILD.search(answer)


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text).strip(" .$。").lower()


def boxed_answers(text: str) -> list[str]:
    """What stands in each `\\boxed{..}` that is closed, in the order of the text; outer ones."""
    found: list[str] = []
    at = text.find(_BOX)
    while at >= 0:
        start = at + len(_BOX)
        end = _closing(text, start)
        if end is not None:
            found.append(text[start:end].strip())
        at = text.find(_BOX, start if end is None else end)
    return found


def _closing(text: str, start: int) -> int | None:
    """Where the brace closes that is open at `start`."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            if depth == 0:
                return at
            depth -= 1
    return None
