"""Takes one sample through the stages, one at a time.

`advance` does the next stage and stores what came out: a process may end anywhere between, and
a queue may deliver the same sample twice. Knows the order of the stages and where a fault sends
a sample back to; not who runs it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Protocol

from multiverse_curator import stages
from multiverse_curator.answers import Groups, Refill, Summary
from multiverse_curator.asking import Ask, Asking
from multiverse_curator.checks.content import MAX_DISTANCE, compare, distance
from multiverse_curator.checks.grammar import GrammarCheck
from multiverse_curator.checks.standalone import siblings_fault
from multiverse_curator.computed import values
from multiverse_curator.draft import Draft, fill, forks, linear
from multiverse_curator.faults import Fault, Stage
from multiverse_curator.sample import (
    Curation,
    Provenance,
    Sample,
    flat,
    paths_only,
    tree_from_json,
    tree_to_json,
)
from multiverse_curator.sentences import split
from multiverse_curator.store import Sample as Row
from multiverse_curator.store import State, Store
from multiverse_curator.structure import build, leaves
from multiverse_curator.teachers.contract import (
    TeacherBusy,
    TeacherRefused,
    TeacherTruncated,
    TeacherUnavailable,
)
from multiverse_shared.answer import final_answer, same_answer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextTree


class Independence(Protocol):
    """Measures how much paths lean on each other; see `checks.independence`."""

    @property
    def name(self) -> str: ...

    def measure(self, prompt: str, tree: TextTree) -> list[dict[str, Any]]:
        """One entry per path."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a sample has to keep to."""

    dialect: str = "multiverse"
    tries: int = 3  # of a stage
    max_distance: float = MAX_DISTANCE
    independence: Independence | None = None
    max_dependence: float | None = None  # nats per token that a path may gain by its siblings
    grammar: GrammarCheck = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grammar", GrammarCheck(load_dialect(self.dialect)))


class Pipeline:
    """Stages for any sample of a store."""

    def __init__(self, store: Store, asking: Asking, rules: Rules) -> None:
        self._store = store
        self._asking = asking
        self._rules = rules

    async def finish(self, sample_id: int) -> State:
        """All stages that are left."""
        while (state := await self.advance(sample_id)) is State.PENDING:
            pass
        return state

    async def advance(self, sample_id: int) -> State:
        """The next stage. Anything but `pending` is final.

        Raises BudgetSpent and TeacherMisconfigured: the sample is as before.
        """
        row = self._store.sample(sample_id)
        if row.state is not State.PENDING:
            return row.state
        stage = row.next_stage
        try:
            return await self._run(row, stage)
        except Fault as fault:
            if row.tries.get(fault.stage, 0) + 1 >= self._rules.tries:
                self._store.finish(
                    sample_id,
                    State.DEAD,
                    reason=fault.reason,
                    stage=fault.stage,
                    question=fault.name,
                )
                return State.DEAD
            self._store.send_back(sample_id, fault.stage, fault.name, fault.reason)
            return State.PENDING
        except (TeacherRefused, TeacherTruncated, TeacherBusy, TeacherUnavailable) as error:
            reason = f"{type(error).__name__}: {error}"
            self._store.finish(sample_id, State.DEAD, reason=reason, stage=stage)
            return State.DEAD

    async def _run(self, row: Row, stage: Stage) -> State:
        source, sentences = row.source, split(row.source.reasoning)
        if not source.reasoning.strip():
            return self._end(row, State.SEQUENTIAL, "the reasoning is empty")
        ask = self._asking.of(row.id, row.complaints)
        output: Any
        if stage is Stage.SUMMARY:
            summary = await stages.summarise(source, sentences, ask)
            output = summary.model_dump()
        elif stage is Stage.GROUPS:
            summary = Summary.model_validate(row.outputs[Stage.SUMMARY])
            groups = await stages.group(source, sentences, summary, ask)
            build(summary, groups)
            output = groups.model_dump(mode="json")
        elif stage is Stage.STRUCTURE:
            summary, groups = _answers(row)
            if not groups.groups:
                return self._end(row, State.SEQUENTIAL, "no parallel steps")
            output = list(leaves(build(summary, groups)))
        elif stage is Stage.REFILL:
            output = await self._refill(row, sentences, ask)
        elif stage is Stage.REWRITE:
            draft = _draft(row, sentences)
            tree = await stages.rewrite(source, draft, ask)
            output = tree_to_json(tree)
            if reason := self._rules.grammar.tree_fault(tree):
                raise Fault(Stage.REWRITE, reason)
        else:
            return await self._check(row, _draft(row, sentences))
        self._store.save(row.id, stage, output)
        return State.PENDING

    async def _refill(self, row: Row, sentences: list[str], ask: Ask) -> Any:
        summary, groups = _answers(row)
        skeleton = build(summary, groups)
        refill = await stages.refill(row.source, sentences, summary, skeleton, ask)
        rebuilt = linear(fill(skeleton, refill, sentences))
        if reason := compare(row.source.reasoning, rebuilt).fault(self._rules.max_distance):
            raise Fault(Stage.REFILL, reason)
        return refill.model_dump()

    async def _check(self, row: Row, draft: Draft) -> State:
        """All rules once more on the whole, the answer, and what a model thinks of the paths."""
        source, rules = row.source, self._rules
        tree = tree_from_json(row.outputs[Stage.REWRITE])
        if reason := rules.grammar.tree_fault(tree) or _paths_fault(
            tree, set(values(source.prompt))
        ):
            raise Fault(Stage.REWRITE, reason)
        was, now = final_answer(source.reasoning), final_answer(flat(tree))
        if was and not (now and same_answer(was, now)):
            raise Fault(Stage.REWRITE, f"the answer was {was!r} and is now {now!r}")
        leaning: list[dict[str, Any]] = []
        if rules.independence:
            leaning = await asyncio.to_thread(rules.independence.measure, source.prompt, tree)
        worst = max((path["gain"] for path in leaning), default=0.0)
        if rules.max_dependence is not None and worst > rules.max_dependence:
            raise Fault(
                Stage.GROUPS,
                f"a path gains {worst:.3f} nats per token from its siblings: it depends on them",
            )
        sample = self._sample(row, draft, tree, leaning, answer=was)
        self._store.finish(row.id, State.CONVERTED, result=sample.model_dump(mode="json"))
        return State.CONVERTED

    def _sample(
        self,
        row: Row,
        draft: Draft,
        tree: TextTree,
        leaning: list[dict[str, Any]],
        answer: str | None,
    ) -> Sample:
        """`answer`: the one that the reasoning says, if it does."""
        source, rules = row.source, self._rules
        usage = rules.grammar.usage(tree)
        curation = Curation(
            labels=[fork.label.value for fork in forks(draft)],
            tries=row.tries,
            distance=round(distance(source.reasoning, linear(draft)), 6),
            rewording=round(distance(linear(draft), paths_only(tree)), 6),
            parallelism=round(usage.parallelism, 4),
            answer_checked=bool(answer),
            independence=leaning,
            independence_model=rules.independence.name if rules.independence else None,
        )
        return Sample(
            id=source.key,
            prompt=source.prompt,
            reasoning=source.reasoning,
            tree=tree_to_json(tree),
            answer=source.answer or answer,
            dialect=rules.dialect,
            provenance=Provenance(
                source=source.origin, teacher=self._asking.teacher.name, licence=source.licence
            ),
            curation=curation,
        )

    def _end(self, row: Row, state: State, reason: str) -> State:
        self._store.finish(row.id, state, reason=reason)
        return state


def _answers(row: Row) -> tuple[Summary, Groups]:
    summary = Summary.model_validate(row.outputs[Stage.SUMMARY])
    return summary, Groups.model_validate(row.outputs[Stage.GROUPS])


def _draft(row: Row, sentences: list[str]) -> Draft:
    skeleton = build(*_answers(row))
    return fill(skeleton, Refill.model_validate(row.outputs[Stage.REFILL]), sentences)


def _paths_fault(tree: TextTree, given: set[str]) -> str:
    """The rule of siblings, on the tree as it will be trained on. Adds to the numbers `given`."""
    for node in tree:
        if isinstance(node, str):
            given.update(values(node))
            continue
        given.update(values(" ".join(node.outlines)))
        if reason := siblings_fault([flat(path) for path in node.paths], given):
            return reason
        for path in node.paths:
            if reason := _paths_fault(path, set(given)):
                return reason
        given.update(values(flat((node,))))
    return ""
