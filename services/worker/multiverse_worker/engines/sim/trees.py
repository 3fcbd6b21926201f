"""Writes answers in the dialect of a model directory: plans, paths, conclusions, plain text.

The one place of the simulator that knows a tokenizer and a grammar. Fillers are English words,
so that the answers can be read. What a path may not fork is plain text of the same length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any
from zlib import crc32

from multiverse_shared.dialect import Tag
from multiverse_shared.encode import TextBlock, encode
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.contract import Start
from multiverse_worker.engines.sim.scripts import Noise, Script, mix, path_seed
from multiverse_worker.engines.sim.shapes import (
    BlockShape,
    PathShape,
    TreeDistribution,
    find_path,
    recorded_shapes,
)
from multiverse_worker.engines.sim.words import WORDS

PROMPT_TOKENS = 256  # in which a directive is looked for
_CHUNK = 64
_RANGES = ("paths", "blocks", "text", "outline", "path", "conclusion")
_NUMBER = "[0-9]{1,6}"
_PAIR = rf"(?:(?:{'|'.join(_RANGES)}|depth)={_NUMBER}(?:-{_NUMBER})?|tree|recorded|plain)"
_DIRECTIVE = re.compile(rf"sim:({_PAIR}(?:,{_PAIR})*)(?![-0-9])")
_MOST_PATHS = 4096  # of a directed tree: anyone may write a prompt


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """What the answer of a request is to look like."""

    kind: str  # tree: random; recorded: as a real output; plain
    distribution: TreeDistribution

    def shape(self, seed: int) -> PathShape:
        """The answer to a request with this seed."""
        rng = Random(mix(seed))
        if self.kind == "recorded":
            return rng.choice(recorded_shapes())
        plain = replace(self.distribution, depth=0)
        return (plain if self.kind == "plain" else self.distribution).draw(rng)

    def directed(self, prompt: str) -> AnswerStyle:
        """The style with what the prompt says of it: `sim:recorded`, `sim:paths=8,path=50-90`."""
        found = _DIRECTIVE.search(prompt)
        changes: dict[str, Any] = {}
        kind = self.kind
        for pair in found[1].split(",") if found else ():
            key, _, value = pair.partition("=")
            if not value:
                kind = key
            elif key == "depth":
                changes[key] = int(value.partition("-")[0])
            else:
                least, _, most = value.partition("-")
                changes[key] = (int(least), max(int(least), int(most or least)))
        return AnswerStyle(kind, _bounded(replace(self.distribution, **changes)))


def _bounded(trees: TreeDistribution) -> TreeDistribution:
    """The same with fewer blocks and paths, and less deep, where there could be too many paths."""
    paths = _at_most(trees.paths, _MOST_PATHS)
    blocks = _at_most(trees.blocks, _MOST_PATHS // max(1, paths[1]))
    depth, most = 0, blocks[1]
    while depth < trees.depth and most * paths[1] <= _MOST_PATHS:
        depth, most = depth + 1, most * max(2, paths[1])
    return replace(trees, paths=paths, blocks=blocks, depth=depth)


def _at_most(values: tuple[int, int], most: int) -> tuple[int, int]:
    return min(values[0], most), min(values[1], most)


@dataclass(frozen=True, slots=True)
class _Region:
    """Where in a script a block stands: its plan is [start, fork), its conclusion [fork, stop)."""

    start: int
    fork: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Written:
    """A path in ids, structure only: what stands at other places is filler."""

    structure: Mapping[int, int]  # by index
    regions: tuple[_Region, ...]


class TreeScripts:
    """A `ScriptSource` for one model directory."""

    def __init__(self, grammar: Grammar, vocab_size: int, eos: int, style: AnswerStyle) -> None:
        self.vocab_size = vocab_size
        self._grammar = grammar
        self._tokenizer = tokenizer = grammar.tokenizer
        self._eos = eos
        self._style = style
        encoded = (tuple(tokenizer.encode(f" {word}")) for word in WORDS)
        self._words = [ids for ids in encoded if ids]
        self._spare = tuple(sorted({token for ids in self._words for token in ids}))
        self._write = lru_cache(4096)(self._written)
        empty = self._encoded(("",))
        self._opener = grammar.tags.get(Tag.BLOCK_OPEN, grammar.tags[Tag.PLAN_OPEN])
        self._block_end = _model_texts(empty)[-1]
        [block] = [item for item in empty if isinstance(item, Block)]
        self._path_end = _model_texts(block.paths[0])[-1]

    def script(self, start: Start, context: Context) -> Script:
        style = self._style.directed(self._beginning(context))
        sampling = start.sampling
        written = self._write(style, sampling.seed, sampling.stream)
        may_fork = self._opener not in sampling.banned
        hidden = [
            region
            for region in written.regions
            if not self._is_there(region, sampling.draws, written, context, may_fork)
        ]
        return _PathScript(self, path_seed(start), written.structure, hidden)

    def fill(self, seed: int, chunk: int) -> list[int]:
        """Ids of readable words."""
        words = Random(mix(seed + chunk)).choices(self._words, k=_CHUNK)
        return [token for ids in words for token in ids][:_CHUNK]

    def spare(self, seed: int) -> Noise:
        """Words to take in place of banned ones."""
        return Noise(seed, self._spare)

    def _beginning(self, context: Context) -> str:
        first = context[0]
        return self._tokenizer.decode(first.ids[:PROMPT_TOKENS]) if isinstance(first, Text) else ""

    def _is_there(
        self, region: _Region, draws: int, written: _Written, context: Context, may_fork: bool
    ) -> bool:
        """Whether the block of `region` is open behind `draws` tokens, or may still be opened."""
        if draws <= region.start:
            return may_fork
        last = context[-1]
        ids = last.ids if isinstance(last, Text) else ()
        if draws < region.fork:  # in the plan
            begun = len(ids) - (draws - region.start)
            return begun >= 0 and ids[begun] == written.structure[region.start]
        end = len(ids) - (draws - region.fork)  # in the conclusion
        header = self._grammar.join_header
        return end >= len(header) and ids[end - len(header) : end] == header

    def _written(self, style: AnswerStyle, seed: int, path: str) -> _Written:
        root = style.shape(seed)
        shape = find_path(root, path or "0")
        structure: dict[int, int] = {}
        regions: list[_Region] = []
        at = 0

        def place(ids: Ids) -> None:
            nonlocal at
            structure.update(enumerate(ids, at))
            at += len(ids)

        for part in shape if shape is not None else (style.distribution.path[0],):
            if isinstance(part, BlockShape):
                start = at
                place(self._plan(part.outlines, mix(seed ^ crc32(path.encode())) + start))
                fork, at = at, at + part.conclusion
                place(self._block_end)
                regions.append(_Region(start, fork, at))
            else:
                at += part
        place(self._path_end if "." in path else (self._eos,))
        return _Written(structure, tuple(regions))

    def _plan(self, outlines: tuple[int, ...], seed: int) -> Ids:
        """A plan whose outlines have about so many tokens."""
        texts = [
            self._tokenizer.decode(self.fill(seed, number)[:tokens])
            for number, tokens in enumerate(outlines)
        ]
        return _model_texts(self._encoded(tuple(texts)))[0]

    def _encoded(self, outlines: tuple[str, ...]) -> Context:
        """A block whose paths and conclusion are empty."""
        return encode((TextBlock(outlines, ((),) * len(outlines), ()),), self._grammar)


class _PathScript:
    """One path: structure where it is and may be, words elsewhere."""

    def __init__(
        self, source: TreeScripts, seed: int, structure: Mapping[int, int], hidden: list[_Region]
    ) -> None:
        self._source = source
        self._seed = seed
        self._structure = structure
        self._hidden = hidden
        self._chunk = -1
        self._fill: list[int] = []

    def __call__(self, index: int, attempt: int = 0) -> int:
        if attempt:
            return self._source.spare(self._seed)(index, attempt)
        token = self._structure.get(index)
        if token is not None and not any(r.start <= index < r.stop for r in self._hidden):
            return token
        chunk, at = divmod(index, _CHUNK)
        if chunk != self._chunk:
            self._chunk, self._fill = chunk, self._source.fill(self._seed, chunk)
        return self._fill[at]


def _model_texts(context: Context) -> list[Ids]:
    """The texts that the model writes itself, blocks left out."""
    return [item.ids for item in context if isinstance(item, Text) and not item.written]
