"""Samples with a fault planted in them, and the check that has to find it.

Clean samples come from generated chains of thought. Half of them are reworded the way a teacher
does it, so that a check may not simply refuse all that differs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from multiverse_curator import stages
from multiverse_curator.answers import Rewrite
from multiverse_curator.checks.content import compare
from multiverse_curator.checks.grammar import GrammarCheck
from multiverse_curator.checks.standalone import (
    MAX_REWORDING,
    check_rewrite,
    sibling_references,
    siblings_fault,
)
from multiverse_curator.computed import results, values
from multiverse_curator.draft import DraftFork, fill, linear
from multiverse_curator.faults import Fault
from multiverse_curator.sentences import split
from multiverse_curator.source import Source
from multiverse_curator.structure import build
from multiverse_curator.teachers.contract import Question
from multiverse_curator.teachers.rules import RulesTeacher
from multiverse_shared.answer import final_answer, same_answer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock
from tests.unit.curator.generated import generated

GRAMMAR = GrammarCheck(load_dialect("multiverse"))
NEW = (
    "It is well known that such sums grow without bound in the general setting.",
    "Let me also remember to buy milk on the way home tonight.",
    "By the theorem of Pythagoras the hypotenuse follows from both legs.",
    "这里我们还需要考虑另外一个完全不同的问题，即函数的连续性。",
)
REFERENCES = (
    "As in the first case, the sign does not matter.",
    "Similarly, this holds on the whole range.",
    "Unlike the other case, nothing is lost here.",
    "This follows from the previous path.",
    "Just like before, we take the larger one.",
    "By symmetry with case 1 nothing changes.",
    "The same reasoning applies on this side.",
    "We have already met this value on the other side.",
    "Our earlier finding carries over.",
    "同理，这里的符号不变。",
    "与前一种情况相比，符号不变。",
)
REWORDING = {
    "This satisfies the condition.": "So this satisfies the condition.",
    "The distance is": "Here the distance is",
    "the value is": "we have that the value is",
    "这时": "此时",
    "directly, digit by digit": "directly and digit by digit",
    "Its value is": "So its value is",
}


@dataclass(frozen=True)
class Labelled:
    """`fault` is the name of the check that has to object, or empty."""

    fault: str
    originals: tuple[str, ...]
    rewrite: Rewrite
    given: str
    text: str  # the whole answer with its tags
    was: str  # the reasoning before


@dataclass
class Score:
    hits: int = 0
    missed: int = 0
    false_alarms: int = 0
    clean: int = 0
    misses: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        found = self.hits + self.false_alarms
        return self.hits / found if found else 1.0

    @property
    def recall(self) -> float:
        planted = self.hits + self.missed
        return self.hits / planted if planted else 1.0


def objections(sample: Labelled) -> set[str]:
    """Names of the checks that object."""
    paths = sample.rewrite.paths
    found = set()
    for path, original in zip(paths, sample.originals, strict=True):
        if compare(original, path).fault(MAX_REWORDING):
            found.add("content")
        if sibling_references(path):
            found.add("standalone")
    if siblings_fault(paths, set(values(sample.given + " ".join(sample.rewrite.outlines)))):
        found.add("numbers")
    if GRAMMAR.text_fault(sample.text):
        found.add("grammar")
    was, now = final_answer(sample.was), final_answer(sample.text)
    if was and not (now and same_answer(was, now)):
        found.add("answer")
    return found


def refused_as_a_whole(sample: Labelled) -> bool:
    """Whether the pipeline would keep the sample out, for whatever reason."""
    try:
        check_rewrite(sample.rewrite, sample.originals, set(values(sample.given)))
    except Fault:
        return True
    return bool(objections(sample))


def score(samples: list[Labelled]) -> dict[str, Score]:
    """Each check against all samples: those of its own fault, of other faults, and clean ones.

    An objection to a sample with another fault is a false alarm, except where the planted
    sentence is also new to the content check.
    """
    scores = {name: Score() for name in (*PLANTERS, "whole")}
    for sample in samples:
        found = objections(sample)
        for name, planter in scores.items():
            if name == "whole":
                continue
            if sample.fault == name:
                planter.hits += name in found
                planter.missed += name not in found
                if name not in found:
                    planter.misses.append(repr(sample.rewrite.paths)[:300])
            elif name in found and not (name == "content" and sample.fault == "standalone"):
                planter.false_alarms += 1
            planter.clean += not sample.fault
        whole = scores["whole"]
        refused = refused_as_a_whole(sample)
        whole.hits += bool(sample.fault) and refused
        whole.missed += bool(sample.fault) and not refused
        whole.false_alarms += not sample.fault and refused
        whole.clean += not sample.fault
    return scores


def labelled(count: int, seed: int) -> list[Labelled]:
    """Half clean, half with one fault each, kinds in turn."""
    rng = Random(seed)
    samples: list[Labelled] = []
    kinds: Counter[str] = Counter()
    for source in generated(20 * count, seed):
        if len(samples) == count:
            break
        clean = asyncio.run(_clean(source))
        if clean is None:
            continue
        if len(samples) % 2 == 0:
            samples.append(_reworded(clean) if len(samples) % 4 else clean)
            continue
        for name in sorted(PLANTERS, key=lambda name: kinds[name]):
            faulty = PLANTERS[name](clean, rng)
            if faulty is not None:
                kinds[name] += 1
                samples.append(faulty)
                break
    return samples


async def _clean(source: Source) -> Labelled | None:
    """The first fork of a chain of thought, rewritten by rules."""
    sentences = split(source.reasoning)
    teacher = RulesTeacher()

    async def ask(question: Question, schema: type) -> object:
        return schema.model_validate_json((await teacher.answer(question, 0)).text)

    summary = await stages.summarise(source, sentences, ask)
    groups = await stages.group(source, sentences, summary, ask)
    if not groups.groups:
        return None
    skeleton = build(summary, groups)
    refill = await stages.refill(source, sentences, summary, skeleton, ask)
    draft = fill(skeleton, refill, sentences)
    at = next(n for n, node in enumerate(draft) if isinstance(node, DraftFork))
    fork = draft[at]
    assert isinstance(fork, DraftFork)
    originals = tuple(linear(member) for member in fork.members)
    before, after = linear(draft[:at]), linear(draft[at + 1 :])
    flat = DraftFork(fork.label, tuple((text,) for text in originals))
    [_, node] = await stages.rewrite(source, (before or " ", flat), ask)
    assert isinstance(node, TextBlock)
    rewrite = Rewrite(
        outlines=list(node.outlines),
        paths=[str(path[0]) for path in node.paths],
        conclusion=str(node.conclusion[0]),
    )
    given = source.prompt + before
    return _with(
        rewrite, Labelled("", originals, rewrite, given, "", source.reasoning), before, after
    )


def _with(rewrite: Rewrite, sample: Labelled, before: str, after: str) -> Labelled:
    paths = tuple((path,) for path in rewrite.paths)
    block = TextBlock(tuple(rewrite.outlines), paths, (rewrite.conclusion,))
    return replace(sample, rewrite=rewrite, text=GRAMMAR.linear((before, block, after)))


def _reworded(sample: Labelled) -> Labelled:
    paths = list(sample.rewrite.paths)
    text = sample.text
    for number, path in enumerate(paths):
        for old, new in REWORDING.items():
            paths[number] = paths[number].replace(old, new)
        text = text.replace(path, paths[number])
    return replace(sample, rewrite=sample.rewrite.model_copy(update={"paths": paths}), text=text)


def _planted(
    sample: Labelled, fault: str, number: int, path: str, original: str | None = None
) -> Labelled:
    paths, originals = list(sample.rewrite.paths), list(sample.originals)
    text = sample.text.replace(paths[number], path)
    paths[number] = path
    if original is not None:
        originals[number] = original
    rewrite = sample.rewrite.model_copy(update={"paths": paths})
    return replace(sample, fault=fault, rewrite=rewrite, originals=tuple(originals), text=text)


def _drop_or_invent(sample: Labelled, rng: Random) -> Labelled | None:
    long = [
        (number, sentences)
        for number, path in enumerate(sample.rewrite.paths)
        if len(sentences := split(path)) > 1
    ]
    number = rng.randrange(len(sample.rewrite.paths))
    path = sample.rewrite.paths[number]
    if rng.random() < 0.5 and long:
        number, sentences = rng.choice(long)
        gone = max(range(len(sentences)), key=lambda n: len(sentences[n]))
        kept = "".join(sentences[:gone] + sentences[gone + 1 :])
        return _planted(sample, "content", number, kept)
    return _planted(sample, "content", number, path.rstrip() + " " + rng.choice(NEW) + "\n")


def _refer(sample: Labelled, rng: Random) -> Labelled | None:
    number = rng.randrange(1, len(sample.rewrite.paths))
    words = rng.choice(REFERENCES)
    path = sample.rewrite.paths[number].rstrip() + " " + words + "\n"
    return _planted(sample, "standalone", number, path, path)


def _borrow_number(sample: Labelled, rng: Random) -> Labelled | None:
    """The original already uses a sibling's number: the steps never were independent."""
    number = rng.randrange(1, len(sample.rewrite.paths))
    own = set(values(sample.given + sample.rewrite.paths[number] + sample.rewrite.outlines[number]))
    foreign = sorted(
        value for value in results(sample.rewrite.paths[number - 1]) - own if float(value) >= 10
    )
    if not foreign:
        return None
    use = rng.choice(
        (
            "Adding {n} to this does not change the sign.",
            "Compare this with {n}.",
            "再加上{n}即可。",
            "Then {n} + 15 is larger.",
            "Its neighbour is {n}.",
        )
    ).format(n=foreign[0])
    path = sample.rewrite.paths[number].rstrip() + " " + use + "\n"
    return _planted(sample, "numbers", number, path, path)


def _swap_tag(sample: Labelled, rng: Random) -> Labelled | None:
    old, new = rng.choice(
        (
            ("</Path>", "</Outline>"),
            ("<Path>", "<Outline>"),
            ("</Goal>", "</Path>"),
            ("<Conclusion>", "</Goal>"),
            ("</Parallel>", "<Parallel>"),
            ("</Outline>", "</Path>"),
            ("</Conclusion></Parallel>", "</Parallel></Conclusion>"),
        )
    )
    return replace(sample, fault="grammar", text=sample.text.replace(old, new, 1))


def _change_answer(sample: Labelled, rng: Random) -> Labelled | None:
    was = final_answer(sample.was)
    if not was or not was.isdigit():
        return None
    head, found, tail = sample.text.rpartition(was)
    return replace(sample, fault="answer", text=head + str(int(was) + 1) + tail) if found else None


PLANTERS: dict[str, Callable[[Labelled, Random], Labelled | None]] = {
    "content": _drop_or_invent,
    "standalone": _refer,
    "numbers": _borrow_number,
    "grammar": _swap_tag,
    "answer": _change_answer,
}
