"""Stage 3: the tree of steps with its parallel groups.

A pure function of the answers to stages 1 and 2; nothing is asked. Also says what in them is
not allowed: unknown steps, groups that are not adjacent siblings, dependencies inside a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_curator.answers import Groups, Label, ParallelGroup, Summary
from multiverse_curator.faults import Fault, Stage


@dataclass(frozen=True, slots=True)
class Fork:
    """Steps that may be taken side by side; each member is a sequence of its own."""

    label: Label
    members: tuple[Skeleton, ...]


Node: TypeAlias = str | Fork  # the id of a step that bears text, or a fork
Skeleton: TypeAlias = tuple[Node, ...]


def build(summary: Summary, groups: Groups) -> Skeleton:
    """The steps in order, adjacent ones of a group folded into forks; at most two deep.

    Fault sends the sample back to stage 2.
    """
    ids = step_ids(summary)
    _check(ids, groups)
    return _fold(ids[""], ids, groups.groups)


def step_ids(summary: Summary) -> dict[str, list[str]]:
    """Ids of the children of each step; those of the main steps under the empty id."""
    ids: dict[str, list[str]] = {"": []}
    for number, step in enumerate(summary.steps, 1):
        ids[""].append(str(number))
        ids[str(number)] = [f"{number}.{n}" for n in range(1, len(step.substeps) + 1)]
    return ids


def leaves(nodes: Skeleton) -> Iterator[str]:
    """Ids of the steps that bear text, in order."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        else:
            for member in node.members:
                yield from leaves(member)


def _fold(
    siblings: Sequence[str], ids: dict[str, list[str]], groups: Sequence[ParallelGroup]
) -> Skeleton:
    starts = {group.steps[0]: group for group in groups}
    nodes: list[Node] = []
    at = 0
    while at < len(siblings):
        group = starts.get(siblings[at])
        if group is None:
            nodes.extend(_expand(siblings[at], ids, groups))
            at += 1
        else:
            members = tuple(_expand(step, ids, groups) for step in group.steps)
            nodes.append(Fork(group.label, members))
            at += len(group.steps)
    return tuple(nodes)


def _expand(step: str, ids: dict[str, list[str]], groups: Sequence[ParallelGroup]) -> Skeleton:
    """The step's own text (what stands before its first substep) and its substeps."""
    return (step, *_fold(ids.get(step, []), ids, groups))


def _check(ids: dict[str, list[str]], groups: Groups) -> None:
    known = {step for children in ids.values() for step in children}
    parent = {step: above for above, children in ids.items() for step in children}
    for edge in groups.dependencies:
        for step in (edge.step, *edge.needs):
            if step not in known:
                raise _fault(f"step {step!r} of a dependency is not in the summary")
    taken: set[str] = set()
    needs = _closure(groups, known)
    for group in groups.groups:
        steps = group.steps
        for step in steps:
            if step not in known:
                raise _fault(f"step {step!r} of a group is not in the summary")
        siblings = ids[parent[steps[0]]] if steps else []
        first = siblings.index(steps[0]) if steps else 0
        if len(steps) < 2 or siblings[first : first + len(steps)] != steps:
            raise _fault(f"group {steps} is not of two or more adjacent steps with one parent")
        if taken & set(steps):
            raise _fault(f"group {steps} shares a step with another group")
        taken |= set(steps)
        for step in steps:
            for other in steps:
                if other != step and any(
                    _within(needed, other)
                    for inner in _inside(step, ids)
                    for needed in needs[inner]
                ):
                    raise _fault(f"step {step} of group {steps} depends on step {other}")


def _closure(groups: Groups, known: set[str]) -> dict[str, set[str]]:
    """All that a step needs, through whatever chain."""
    direct: dict[str, set[str]] = {step: set() for step in known}
    for edge in groups.dependencies:
        direct[edge.step] |= set(edge.needs)
    closed = {}
    for step in known:
        reached, rest = set[str](), [step]
        while rest:
            for needed in direct[rest.pop()] - reached:
                reached.add(needed)
                rest.append(needed)
        closed[step] = reached
    return closed


def _inside(step: str, ids: dict[str, list[str]]) -> list[str]:
    return [step, *ids.get(step, [])]


def _within(step: str, other: str) -> bool:
    return step == other or step.startswith(other + ".")


def _fault(reason: str) -> Fault:
    return Fault(Stage.GROUPS, reason)
