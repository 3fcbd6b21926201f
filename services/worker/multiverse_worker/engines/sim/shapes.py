"""Shapes of answers: how many tokens stand where, and where they fork. No ids.

Random ones are drawn from a distribution, recorded ones are those of real outputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from random import Random
from typing import Any, TypeAlias

_RECORDED = "data/recorded_shapes.json"
Range: TypeAlias = tuple[int, int]  # least and most, both possible


@dataclass(frozen=True, slots=True)
class BlockShape:
    """A plan with its outlines, a path for each, and a conclusion; in tokens."""

    outlines: tuple[int, ...]
    paths: tuple[PathShape, ...]
    conclusion: int


PathShape: TypeAlias = "tuple[int | BlockShape, ...]"  # texts and blocks, in order


@dataclass(frozen=True, slots=True)
class TreeDistribution:
    """What random answers look like; every range is drawn from evenly."""

    paths: Range = (2, 4)  # of a block
    depth: int = 1  # blocks inside blocks; 0: plain answers
    blocks: Range = (1, 1)  # one after another, in the root
    nesting: float = 0.5  # chance that a path forks while `depth` allows
    text: Range = (4, 16)  # tokens before a block, and after the last one
    outline: Range = (2, 8)
    path: Range = (16, 64)
    conclusion: Range = (8, 32)

    def draw(self, rng: Random) -> PathShape:
        """One answer."""
        parts: list[int | BlockShape] = []
        for _ in range(rng.randint(*self.blocks) if self.depth else 0):
            parts += [rng.randint(*self.text), self._block(rng, 1)]
        tail = self.text if parts else self.path
        return (*parts, rng.randint(*tail))

    def _block(self, rng: Random, depth: int) -> BlockShape:
        k = rng.randint(*self.paths)
        outlines = tuple(rng.randint(*self.outline) for _ in range(k))
        paths = tuple(self._path(rng, depth) for _ in range(k))
        return BlockShape(outlines, paths, rng.randint(*self.conclusion))

    def _path(self, rng: Random, depth: int) -> PathShape:
        tokens = rng.randint(*self.path)
        if depth < self.depth and rng.random() < self.nesting:
            before = rng.randint(0, tokens)
            return (before, self._block(rng, depth + 1), tokens - before)
        return (tokens,)


@cache
def recorded_shapes() -> tuple[PathShape, ...]:
    """Those of recorded outputs of a 32B model; see the data file for how they were counted."""
    source = resources.files("multiverse_worker.engines.sim") / _RECORDED
    return tuple(_path(path) for path in json.loads(source.read_text("utf-8"))["shapes"])


def _path(parts: list[int | Mapping[str, Any]]) -> PathShape:
    return tuple(part if isinstance(part, int) else _block(part) for part in parts)


def _block(block: Mapping[str, Any]) -> BlockShape:
    paths = tuple(_path(path) for path in block["paths"])
    return BlockShape(tuple(block["outlines"]), paths, block["conclusion"])


def find_path(shape: PathShape, name: str) -> PathShape | None:
    """The path with this id ("0.2.1"), numbered over all blocks of its parent; None: no such."""
    for number in name.split(".")[1:]:
        paths = [path for part in shape if isinstance(part, BlockShape) for path in part.paths]
        if not number.isdecimal() or not 0 < int(number) <= len(paths):
            return None
        shape = paths[int(number) - 1]
    return shape
