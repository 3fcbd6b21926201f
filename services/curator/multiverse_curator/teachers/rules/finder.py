"""Finds runs of parallel parts in numbered sentences, and what inside them can be split again.

Must not know how teachers are asked.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from multiverse_curator.answers import Label
from multiverse_curator.checks.standalone import sibling_references
from multiverse_curator.computed import used_from, values
from multiverse_curator.teachers.rules.markers import (
    ALTERNATIVE,
    ASIDE,
    CONCLUDES,
    SOFT,
    Marker,
    follows,
    marker_of,
    template,
)

REPEATED = "repeated"  # kind of a run without markers
LONGEST_PART = 60  # sentences
SHORTEST_TEMPLATE = 8  # characters of a repeated computation
SMALLEST_TOLD = 4  # smaller numbers are in every formula
MOST_PARTS = 16
LEAST_ATTEMPT = 200  # characters of an alternative: shorter ones are asides


@dataclass(frozen=True, slots=True)
class Span:
    """Sentences [start, stop); `inner` are parallel parts inside it."""

    start: int
    stop: int
    inner: Run | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent parts none of which needs another."""

    kind: str
    label: Label
    parts: tuple[Span, ...]

    @property
    def start(self) -> int:
        return self.parts[0].start

    @property
    def stop(self) -> int:
        return self.parts[-1].stop


def find(prompt: str, sentences: Sequence[str]) -> list[Run]:
    """Runs in order, apart from each other; with runs inside their parts, one level deep."""
    asked = frozenset(values(prompt))
    found = _runs(asked, sentences, 0, len(sentences))
    return [
        replace(run, parts=tuple(_with_inner(asked, sentences, part) for part in run.parts))
        for run in found
    ]


def _with_inner(asked: Set[str], sentences: Sequence[str], part: Span) -> Span:
    inner = _runs(asked, sentences, part.start + 1, part.stop)
    return replace(part, inner=inner[0]) if inner else part


def _runs(asked: Set[str], sentences: Sequence[str], start: int, stop: int) -> list[Run]:
    runs: list[Run] = []
    at = start
    while at < stop:
        run = _marked_run(sentences, at, start, stop) or _repeated_run(sentences, at, stop)
        kept = run and _independent(asked, sentences, run)
        if kept and (not runs or runs[-1].stop <= kept.start):
            runs.append(kept)
            at = kept.stop
        else:
            at += 1
    return runs


def _marked_run(sentences: Sequence[str], at: int, begun: int, stop: int) -> Run | None:
    """Parts that are opened by markers; the last one ends where the text goes on."""
    first = marker_of(sentences[at])
    if first is None or (first.ordinal is not None and not _opens(first)):
        return None
    if not first.kind.spans:
        return _single_sentences(sentences, at, stop, first)
    starts, last = [at], first
    for place in range(at + 1, stop):
        if place - starts[-1] > LONGEST_PART:
            break
        if first.ordinal is None and CONCLUDES.match(sentences[place]):
            break  # a case may conclude and the next one follow; "if" and "if" may not
        marker = marker_of(sentences[place])
        if marker and follows(marker, last):
            starts.append(place)
            last = marker
    if first.kind.name == ALTERNATIVE:
        starts = _with_first_attempt(sentences, starts, begun)
    if len(starts) < 2:
        return None
    ends = [*starts[1:], _end_of_last(sentences, starts, stop)]
    parts = tuple(Span(a, b) for a, b in zip(starts, ends, strict=True))
    if first.kind.name == ALTERNATIVE and not _are_attempts(sentences, parts):
        return None
    return Run(first.kind.name, first.kind.label, parts[:MOST_PARTS])


def _opens(marker: Marker) -> bool:
    return marker.ordinal == 1 or marker.text.strip(" (").lower().startswith("a")


def _single_sentences(sentences: Sequence[str], at: int, stop: int, last: Marker) -> Run | None:
    """Parts of one sentence each."""
    kind, end = last.kind, at + 1
    while end < stop and (marker := marker_of(sentences[end])) and follows(marker, last):
        last, end = marker, end + 1
    parts = tuple(Span(n, n + 1) for n in range(at, min(end, at + MOST_PARTS)))
    return Run(kind.name, kind.label, parts) if len(parts) > 1 else None


def _with_first_attempt(sentences: Sequence[str], starts: list[int], begun: int) -> list[int]:
    """What comes before the first "alternatively": its paragraph is the first attempt."""
    place = starts[0] - 1
    while place > begun and not sentences[place - 1].endswith("\n"):
        place -= 1
    return [place, *starts] if begun <= place < starts[0] else starts


def _are_attempts(sentences: Sequence[str], parts: Sequence[Span]) -> bool:
    """Whether these are ways to go on, not second thoughts about what was just said."""
    texts = ["".join(sentences[part.start : part.stop]) for part in parts]
    return not ASIDE.match(texts[0]) and all(len(text) >= LEAST_ATTEMPT for text in texts)


def _end_of_last(sentences: Sequence[str], starts: Sequence[int], stop: int) -> int:
    """The end of its paragraph; at most twice as long as the longest of the others."""
    longest = max(b - a for a, b in pairwise(starts))
    end = starts[-1] + 1
    while end < stop and end - starts[-1] < 2 * longest:
        if sentences[end - 1].endswith("\n\n") or CONCLUDES.match(sentences[end]):
            break
        end += 1
    return end


def _repeated_run(sentences: Sequence[str], at: int, stop: int) -> Run | None:
    """Neighbouring sentences that are alike but for their numbers."""
    shape = template(sentences[at])
    if len(shape) < SHORTEST_TEMPLATE or "#" not in shape or shape.startswith(("Step", "=")):
        return None
    end = at + 1
    while end < stop and end - at < MOST_PARTS and template(sentences[end]) == shape:
        end += 1
    if end - at < 2 or len({sentences[n].strip() for n in range(at, end)}) < end - at:
        return None
    return Run(REPEATED, Label.COLLECTIVE, tuple(Span(n, n + 1) for n in range(at, end)))


def _independent(asked: Set[str], sentences: Sequence[str], run: Run) -> Run | None:
    """The longest stretch of parts none of which uses another; None if that is one part."""
    given = set(asked)
    if run.kind != REPEATED:  # lines of one chain look alike, and its first lines stand before
        given.update(values("".join(sentences[: run.start])))
    texts = ["".join(sentences[part.start : part.stop]) for part in run.parts]
    best: tuple[int, int] = (0, 0)
    low = 0
    for high in range(len(texts)):
        text = SOFT.sub("", texts[high])
        if sibling_references(text) or not text.strip():
            low = high + 1
            continue
        for other in range(high - 1, low - 1, -1):
            if _uses(texts[high], texts[other], given) or _uses(texts[other], texts[high], given):
                low = other + 1
                break
        if high + 1 - low > best[1] - best[0]:
            best = (low, high + 1)
    if best[1] - best[0] < 2:
        return None
    return replace(run, parts=run.parts[best[0] : best[1]])


def _uses(text: str, sibling: str, given: Set[str]) -> bool:
    return bool(used_from(sibling, text, given, SMALLEST_TOLD))
