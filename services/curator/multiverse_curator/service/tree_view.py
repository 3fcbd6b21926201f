"""A tree of a sample as a page shows it: blocks with their labels, each path with its outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ShownPath:
    number: str  # 1, 2, ..; 1.1, 1.2 inside the first
    outline: str
    tree: Shown


@dataclass(frozen=True, slots=True)
class ShownBlock:
    label: str
    paths: tuple[ShownPath, ...]
    conclusion: Shown


Shown: TypeAlias = tuple[str | ShownBlock, ...]


def shown(tree: list[Any], labels: Sequence[str]) -> Shown:
    """`tree` as `sample.tree_to_json` makes it; `labels` of its blocks, outer ones first."""
    return _tree(tree, iter(labels), "")


def _tree(tree: list[Any], labels: Iterator[str], prefix: str) -> Shown:
    return tuple(node if isinstance(node, str) else _block(node, labels, prefix) for node in tree)


def _block(node: dict[str, Any], labels: Iterator[str], prefix: str) -> ShownBlock:
    label = next(labels, "")
    paths = []
    pairs = zip(node["outlines"], node["paths"], strict=True)
    for number, (outline, path) in enumerate(pairs, 1):
        name = f"{prefix}{number}"
        paths.append(ShownPath(name, outline, _tree(path, labels, f"{name}.")))
    return ShownBlock(label, tuple(paths), _tree(node["conclusion"], labels, prefix))
