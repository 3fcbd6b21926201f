"""Whether a rebuilt text still says what the original said.

Two measures: the character edit distance over the longer length (arXiv 2506.09991, section 5.1),
and sentence by sentence which are missing and which are new. The first alone lets a dropped
sentence of a long text pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from multiverse_curator.sentences import split

MAX_DISTANCE = 0.2
LIKE = 60.0  # percent: a sentence that is at least so like another one is that one reworded
SHORT = 12  # characters: shorter sentences ("Okay.") may come and go


@dataclass(frozen=True, slots=True)
class Content:
    """`distance` in 0..1; sentences of the original that are missing, and new ones."""

    distance: float
    dropped: tuple[str, ...]
    invented: tuple[str, ...]

    def fault(self, max_distance: float) -> str:
        """What is wrong, or nothing."""
        if self.distance > max_distance:
            return f"the text differs by {self.distance:.3f}, more than {max_distance}"
        if self.dropped:
            return f"{len(self.dropped)} sentences are missing, first {self.dropped[0][:120]!r}"
        if self.invented:
            return f"{len(self.invented)} sentences are new, first {self.invented[0][:120]!r}"
        return ""


def compare(original: str, rebuilt: str) -> Content:
    """Sentences are compared one by one only where the texts differ."""
    if original == rebuilt:
        return Content(0.0, (), ())
    old, new = _sentences(original), _sentences(rebuilt)
    return Content(distance(original, rebuilt), _without(old, new), _without(new, old))


def distance(original: str, rebuilt: str) -> float:
    return float(Levenshtein.normalized_distance(original, rebuilt))


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in split(text) if len(sentence.strip()) >= SHORT]


def _without(those: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Those that nothing in `others` is like. A sentence serves as often as it stands there."""
    left: dict[str, int] = {}
    for other in others:
        left[other] = left.get(other, 0) + 1
    unmatched = []
    for sentence in those:
        if left.get(sentence):
            left[sentence] -= 1
        else:
            unmatched.append(sentence)
    rest = [other for other, count in left.items() for _ in range(count)]
    alone = []
    for sentence in unmatched:
        best = process.extractOne(sentence, rest, scorer=fuzz.ratio, score_cutoff=LIKE)
        if best is None:
            alone.append(sentence)
        else:
            rest.pop(best[2])
    return tuple(alone)
