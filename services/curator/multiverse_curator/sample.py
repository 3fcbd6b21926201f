"""One row of training data.

    {"id": .., "prompt": .., "reasoning": .., "tree": [..], "answer": .., "dialect": ..,
     "provenance": {"source": .., "teacher": .., "licence": ..}}

`reasoning` is the chain of thought as it came, `tree` the same in parallel: a list of texts and
blocks `{"outlines": [..], "paths": [tree, ..], "conclusion": tree}`. Texts bear no tags and no
labels: those are the dialect's. What curation found out about the sample stands beside the row.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from multiverse_shared.encode import TextBlock, TextTree

JsonTree: TypeAlias = list[Any]  # of str and dict


class Provenance(BaseModel):
    model_config = ConfigDict(frozen=True)

    source: str
    teacher: str
    licence: str


class Curation(BaseModel):
    """What the checks measured."""

    model_config = ConfigDict(frozen=True)

    labels: list[str]  # of the blocks, an outer one before those inside it
    tries: dict[str, int]  # by stage: how often it was sent back
    distance: float  # edit distance of the refilled text, 0..1
    rewording: float  # the same of the paths after rewriting
    parallelism: float  # in characters and tags
    answer_checked: bool  # the reasoning says its answer, and the tree says the same
    independence: list[dict[str, Any]]  # per path; see `checks.independence`
    independence_model: str | None


class Sample(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    prompt: str
    reasoning: str
    tree: JsonTree
    answer: str | None
    dialect: str
    provenance: Provenance
    curation: Curation


def tree_to_json(tree: TextTree) -> JsonTree:
    return [
        node
        if isinstance(node, str)
        else {
            "outlines": list(node.outlines),
            "paths": [tree_to_json(path) for path in node.paths],
            "conclusion": tree_to_json(node.conclusion),
        }
        for node in tree
    ]


def tree_from_json(tree: JsonTree) -> TextTree:
    """ValueError for what is no tree."""
    nodes: list[str | TextBlock] = []
    for node in tree:
        if isinstance(node, str):
            nodes.append(node)
        elif isinstance(node, dict) and node.keys() == {"outlines", "paths", "conclusion"}:
            paths = tuple(tree_from_json(path) for path in node["paths"])
            nodes.append(
                TextBlock(tuple(node["outlines"]), paths, tree_from_json(node["conclusion"]))
            )
        else:
            raise ValueError("a tree is a list of texts and of outlines, paths and conclusion")
    return tuple(nodes)


def flat(tree: TextTree) -> str:
    """All text in linear order but the outlines."""
    return "".join(
        node
        if isinstance(node, str)
        else "".join(flat(path) for path in node.paths) + flat(node.conclusion)
        for node in tree
    )


def paths_only(tree: TextTree) -> str:
    """What the original said: no outlines, no conclusions."""
    return "".join(
        node if isinstance(node, str) else "".join(paths_only(path) for path in node.paths)
        for node in tree
    )
