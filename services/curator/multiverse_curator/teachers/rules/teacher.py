"""`rules`: answers the stages' questions by form alone, in English and Chinese reasoning.

Finds case analyses, branches, enumerations, repeated computations and alternatives. Sees no
meaning: its yield is low on free prose, and its outlines and conclusions are plain.
"""

from __future__ import annotations

import re

from multiverse_curator.answers import (
    Answer,
    Groups,
    Label,
    ParallelGroup,
    Part,
    Refill,
    Rewrite,
    Step,
    Summary,
)
from multiverse_curator.material import (
    GroupsMaterial,
    RefillMaterial,
    RewriteMaterial,
    SummaryMaterial,
)
from multiverse_curator.sentences import split
from multiverse_curator.teachers.contract import Question, Reply, Spent, TeacherRefused
from multiverse_curator.teachers.rules.finder import Run, Span, find
from multiverse_curator.teachers.rules.markers import SOFT, marker_of

TITLE = 70  # characters
RESULT = 160
_CLAUSE = r"[.!?。！？;；\n，,]|(?<=\w)[:：](?=\s|$)|\s*="
_SENTENCE = r"[.!?](?=\s|$)|[。！？;；\n]|\s*="


class RulesTeacher:
    """Costs nothing and asks nobody."""

    name = "rules"

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        return Reply(self.reply(question.data).model_dump_json(), Spent())

    async def close(self) -> None:
        pass

    def reply(self, data: object) -> Answer:
        """The answer to the material of any stage."""
        if isinstance(data, GroupsMaterial):
            return self._groups(data)
        if isinstance(data, RefillMaterial):
            return self._refill(data)
        if isinstance(data, SummaryMaterial):
            return self._summary(data)
        if isinstance(data, RewriteMaterial):
            return self._rewrite(data)
        raise TeacherRefused(f"rules know no stage with {type(data).__name__}")

    def _summary(self, data: SummaryMaterial) -> Summary:
        steps = []
        for span, run in _steps(data):
            parts = _substeps(span, run)
            texts = ["".join(data.sentences[part.start : part.stop]) for part in parts]
            title = _title("".join(data.sentences[span.start : span.stop]))
            steps.append(Step(summary=title, substeps=[_title(text) for text in texts]))
        return Summary(steps=steps)

    def _groups(self, data: GroupsMaterial) -> Groups:
        groups = []
        for number, (span, run) in enumerate(_steps(data), 1):
            if run and run.parts[0] == span:
                members = [str(number + n) for n in range(len(run.parts))]
                groups.append(_group(members, run))
            if span.inner:
                inner = _substeps(span, run)
                first = 1 + inner.index(span.inner.parts[0])
                members = [f"{number}.{first + n}" for n in range(len(span.inner.parts))]
                groups.append(_group(members, span.inner))
        return Groups(groups=groups)

    def _refill(self, data: RefillMaterial) -> Refill:
        parts = []
        for number, (span, run) in enumerate(_steps(data), 1):
            substeps = _substeps(span, run)
            end = substeps[0].start if substeps else span.stop
            if end > span.start:
                parts.append(Part(step=str(number), first=span.start + 1, last=end))
            for n, part in enumerate(substeps, 1):
                parts.append(Part(step=f"{number}.{n}", first=part.start + 1, last=part.stop))
        return Refill(parts=parts)

    def _rewrite(self, data: RewriteMaterial) -> Rewrite:
        titles = _distinct([_title(text) for text in data.paths])
        results = [_result(text) for text in data.paths]
        pairs = [
            result if result.startswith(title) else f"{title}: {result}"
            for title, result in zip(titles, results, strict=True)
        ]
        lead = "Of these attempts: " if data.label is Label.SELECTIVE else ""
        return Rewrite(
            outlines=titles,
            paths=[SOFT.sub("", text) for text in data.paths],
            conclusion=lead + "; ".join(pairs) + ".",
        )


def _steps(data: SummaryMaterial) -> list[tuple[Span, Run | None]]:
    """Main steps: the parts of the runs (with their run), and what stands between them."""
    steps: list[tuple[Span, Run | None]] = []
    at = 0
    for run in find(data.question, data.sentences):
        if run.start > at:
            steps.append((Span(at, run.start), None))
        steps.extend((part, run) for part in run.parts)
        at = run.stop
    if at < len(data.sentences) or not steps:
        steps.append((Span(at, max(at, len(data.sentences))), None))
    return steps


def _substeps(span: Span, run: Run | None) -> list[Span]:
    """The parallel parts inside a step, and what follows them there."""
    if not span.inner:
        return []
    parts = list(span.inner.parts)
    if span.inner.stop < span.stop:
        parts.append(Span(span.inner.stop, span.stop))
    return parts


def _group(members: list[str], run: Run) -> ParallelGroup:
    return ParallelGroup(
        steps=members, label=run.label, reason=f"{run.kind}: none uses what another one finds"
    )


def _title(text: str) -> str:
    """What a part does: its marker with the clause behind it, else its first sentence.

    Results are cut off, and so is a marker of conclusion.
    """
    text = SOFT.sub("", text.strip()).lstrip("\\[$*#- \n")
    marker = marker_of(text)
    if marker and marker.kind.name == "letter":
        return marker.text.strip(" ():")
    start = len(marker.text.rstrip(" :：，,")) if marker else 0
    rest = text[start:].lstrip(" :：，,*")
    at = len(text) - len(rest)
    stop = re.search(_CLAUSE if marker else _SENTENCE, rest)
    end = at + stop.start() if stop else len(text)
    return _short(text[:end].strip(" *:：,，#-"), TITLE) or "this part"


def _result(text: str) -> str:
    """The last sentence of a part."""
    sentences = [sentence.strip() for sentence in split(text) if sentence.strip()]
    last = sentences[-1] if sentences else ""
    return _short(last.rstrip(".。;； "), RESULT, tail=True)


def _short(text: str, most: int, *, tail: bool = False) -> str:
    """At most so many characters, cut between words where there are any."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    if tail:
        cut = text[-most:]
        return cut[cut.find(" ") + 1 :]
    cut = text[:most]
    return cut[: cut.rfind(" ")] if " " in cut else cut


def _distinct(titles: list[str]) -> list[str]:
    if len(set(titles)) == len(titles):
        return titles
    return [f"{title} ({number})" for number, title in enumerate(titles, 1)]
