"""Stage 4's result: the original sentences in the structure, verbatim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_curator.answers import Label, Refill
from multiverse_curator.faults import Fault, Stage
from multiverse_curator.structure import Fork, Skeleton, leaves


@dataclass(frozen=True, slots=True)
class DraftFork:
    """Members are still in the words of the original."""

    label: Label
    members: tuple[Draft, ...]


Draft: TypeAlias = tuple[str | DraftFork, ...]


def fill(skeleton: Skeleton, refill: Refill, sentences: Sequence[str]) -> Draft:
    """The sentences of each step in its place. Fault for steps and numbers that do not exist."""
    known = set(leaves(skeleton))
    texts: dict[str, str] = {}
    for part in refill.parts:
        if part.step not in known:
            raise Fault(Stage.REFILL, f"step {part.step!r} is not in the structure")
        if not part.first <= part.last <= len(sentences):
            raise Fault(
                Stage.REFILL,
                f"step {part.step}: sentences {part.first} to {part.last} are not within "
                f"1 to {len(sentences)}",
            )
        words = "".join(sentences[part.first - 1 : part.last])
        texts[part.step] = texts.get(part.step, "") + words
    draft = _place(skeleton, texts)
    _check_members(draft)
    return draft


def linear(draft: Draft) -> str:
    """The text in order, without the structure."""
    return "".join(
        node if isinstance(node, str) else "".join(linear(member) for member in node.members)
        for node in draft
    )


def forks(draft: Draft) -> list[DraftFork]:
    """All forks, a fork before those inside it."""
    found: list[DraftFork] = []
    for node in draft:
        if isinstance(node, DraftFork):
            found.append(node)
            for member in node.members:
                found.extend(forks(member))
    return found


def _place(skeleton: Skeleton, texts: dict[str, str]) -> Draft:
    nodes: list[str | DraftFork] = []
    for node in skeleton:
        if isinstance(node, Fork):
            members = tuple(_place(member, texts) for member in node.members)
            nodes.append(DraftFork(node.label, members))
        elif text := texts.get(node):
            if nodes and isinstance(nodes[-1], str):
                nodes[-1] += text
            else:
                nodes.append(text)
    return tuple(nodes)


def _check_members(draft: Draft) -> None:
    for fork in forks(draft):
        for member in fork.members:
            if not linear(member).strip():
                raise Fault(Stage.REFILL, "a parallel step has no sentences")
