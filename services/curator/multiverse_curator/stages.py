"""The stages that ask: each a pure function of its inputs and the answers.

The same inputs give the same questions, so a stage that is run again after an interruption finds
its answers stored. Must not know where answers come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from multiverse_curator import material
from multiverse_curator.answers import Groups, Refill, Rewrite, Summary
from multiverse_curator.asking import Ask
from multiverse_curator.checks.standalone import check_rewrite
from multiverse_curator.computed import values
from multiverse_curator.draft import Draft, DraftFork, linear
from multiverse_curator.faults import Fault, Stage
from multiverse_curator.source import Source
from multiverse_curator.structure import Skeleton, leaves
from multiverse_curator.teachers.contract import Question
from multiverse_shared.encode import TextBlock, TextTree

_MARKER = re.compile(r"\[\[fork (\d+)\]\]")


async def summarise(source: Source, sentences: Sequence[str], ask: Ask) -> Summary:
    """Stage 1. No input is too short: one step is a summary."""
    data = material.SummaryMaterial(question=source.prompt, sentences=list(sentences))
    question = Question(Stage.SUMMARY, "", material.SUMMARY, data, Summary)
    return await ask(question, Summary)


async def group(source: Source, sentences: Sequence[str], summary: Summary, ask: Ask) -> Groups:
    """Stage 2. Whether the groups are allowed is for `structure.build` to say."""
    data = material.GroupsMaterial(question=source.prompt, sentences=list(sentences), steps=summary)
    return await ask(Question(Stage.GROUPS, "", material.GROUPS, data, Groups), Groups)


async def refill(
    source: Source,
    sentences: Sequence[str],
    summary: Summary,
    skeleton: Skeleton,
    ask: Ask,
) -> Refill:
    """Stage 4. Sentences are named, not repeated: the words cannot change."""
    steps: dict[str, str] = {}
    for number, step in enumerate(summary.steps, 1):
        steps[str(number)] = step.summary
        steps |= {f"{number}.{n}": text for n, text in enumerate(step.substeps, 1)}
    data = material.RefillMaterial(
        question=source.prompt,
        sentences=list(sentences),
        steps=steps,
        leaves=list(leaves(skeleton)),
    )
    return await ask(Question(Stage.REFILL, "", material.REFILL, data, Refill), Refill)


async def rewrite(source: Source, draft: Draft, ask: Ask) -> TextTree:
    """Stage 5: every fork becomes a block, inner ones first. One question per fork."""
    given = set(values(source.prompt))
    return await _Rewriting(source, ask).tree(draft, "", given, "0")


class _Rewriting:
    def __init__(self, source: Source, ask: Ask) -> None:
        self._source = source
        self._ask = ask

    async def tree(self, draft: Draft, before: str, given: set[str], place: str) -> TextTree:
        """`before` is the end of what stands before the draft, `given` all numbers there."""
        nodes: list[str | TextBlock] = []
        for number, node in enumerate(draft):
            if isinstance(node, str):
                nodes.append(node)
            else:
                nodes.append(await self.block(node, before, given, f"{place}.{number}"))
            text = linear((node,))
            before = (before + text)[-material.BEFORE :]
            given.update(values(text))
        return tuple(nodes)

    async def block(self, fork: DraftFork, before: str, given: set[str], place: str) -> TextBlock:
        members = [
            await self.tree(member, before, set(given), f"{place}.{number}")
            for number, member in enumerate(fork.members, 1)
        ]
        texts = [_marked(member) for member in members]
        data = material.RewriteMaterial(
            question=self._source.prompt,
            before=before,
            label=fork.label,
            paths=texts,
        )
        question = Question(Stage.REWRITE, place, material.REWRITE, data, Rewrite)
        answer = await self._ask(question, Rewrite)
        try:
            check_rewrite(answer, texts, given)
            paths = tuple(
                _unmarked(text, member) for text, member in zip(answer.paths, members, strict=True)
            )
        except Fault as fault:
            raise Fault(fault.stage, fault.reason, place) from None
        outlines = tuple(outline.strip() for outline in answer.outlines)
        return TextBlock(outlines, paths, (answer.conclusion,))


def _marked(member: TextTree) -> str:
    """The text of a path, each block in it as a marker."""
    parts, blocks = list[str](), 0
    for node in member:
        if isinstance(node, str):
            parts.append(node)
        else:
            blocks += 1
            parts.append(f"[[fork {blocks}]]")
    return "".join(parts)


def _unmarked(text: str, member: TextTree) -> TextTree:
    """The blocks of `member` back in the place of their markers."""
    blocks = [node for node in member if isinstance(node, TextBlock)]
    if not blocks:
        return (text,)
    pieces = _MARKER.split(text)
    if [int(number) for number in pieces[1::2]] != list(range(1, len(blocks) + 1)):
        raise Fault(Stage.REWRITE, "the markers [[fork n]] are not all kept in their order")
    nodes: list[str | TextBlock] = []
    for piece, block in zip(pieces[::2], [*blocks, None], strict=True):
        if piece:
            nodes.append(piece)
        if block is not None:
            nodes.append(block)
    return tuple(nodes)
