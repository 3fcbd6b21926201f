"""Whether a sample is an answer of its dialect, to the parser that serves.

Tokens are characters and tags, so no model is needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import Dialect
from multiverse_shared.encode import TextBlock, TextTree, encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Block, Context, linearise, normalise
from multiverse_shared.usage import Usage, usage

MAX_DEPTH = 2


class GrammarCheck:
    """Of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._tokenizer = CharacterTokenizer(dialect)
        self._grammar = Grammar.bind(dialect, self._tokenizer)
        self._limits = Limits(max_depth=MAX_DEPTH)

    def linear(self, tree: TextTree) -> str:
        """The answer as a plain client reads it."""
        return self._tokenizer.decode(linearise(encode(tree, self._grammar)))

    def usage(self, tree: TextTree) -> Usage:
        """Counts in characters and tags."""
        return usage(encode(tree, self._grammar))

    def tree_fault(self, tree: TextTree) -> str:
        """What the parser makes of it that it is not, or nothing."""
        context = encode(tree, self._grammar)
        if depth(tree) > MAX_DEPTH:
            return f"blocks are nested {depth(tree)} deep, more than {MAX_DEPTH}"
        if sizes := [len(block.paths) for block in blocks(tree) if len(block.paths) < 2]:
            return f"a block has {sizes[0]} path"
        if wide := [1 for block in blocks(tree) if len(block.paths) > self._limits.max_paths]:
            return f"{len(wide)} blocks have more than {self._limits.max_paths} paths"
        reading = read(linearise(context), self._grammar, self._limits)
        if reading.irregular:
            return f"malformed: {dict(reading.irregular)}"
        if normalise(reading.context) != normalise(context):
            return "the parser reads another tree"
        return ""

    def text_fault(self, text: str) -> str:
        """The same for an answer as text, in which every spelled tag is meant."""
        reading = read(self._tokenizer.encode_trusted(text), self._grammar, self._limits)
        if reading.irregular:
            return f"malformed: {dict(reading.irregular)}"
        if sizes := [size for size in _sizes(reading.context) if size < 2]:
            return f"a block has {sizes[0]} path"
        return ""


def blocks(tree: TextTree) -> Iterator[TextBlock]:
    """Every block, an outer one before those inside it."""
    for node in tree:
        if isinstance(node, TextBlock):
            yield node
            for inner in (*node.paths, node.conclusion):
                yield from blocks(inner)


def depth(tree: TextTree) -> int:
    inner = [
        1 + max(depth(part) for part in (*node.paths, node.conclusion))
        for node in tree
        if isinstance(node, TextBlock)
    ]
    return max(inner, default=0)


def _sizes(context: Context) -> Iterator[int]:
    for item in context:
        if isinstance(item, Block):
            yield len(item.paths)
            for path in item.paths:
                yield from _sizes(path)
