"""What is asked. The simulator reads the shape of its answer in the prompt (docs/simulator.md)."""

from __future__ import annotations

from functools import cache
from random import Random

from multiverse_worker.engines.sim.shapes import BlockShape, PathShape, recorded_shapes

SHORTER = 16  # real answers have thousands of tokens: sizes of replayed trees are divided by this
_WORDS = ("time", "light", "river", "stone", "paper", "north", "early", "green", "plain", "order")
DOCUMENTS = 8
DOCUMENT_WORDS = 400


def chat(rng: Random) -> str:
    """A short question; its answer is plain, or has a few short paths."""
    shape = rng.choice(("plain", "paths=2-3,path=8-24", "paths=2-4,path=8-16"))
    return f"sim:{shape} {_text(rng, 12)}"


def forks(rng: Random) -> str:
    """Blocks inside blocks."""
    return f"sim:paths=3-5,depth=2,path=8-16,conclusion=4-8 {_text(rng, 8)}"


def long_prefix(rng: Random) -> str:
    """A question behind one of a few long documents, which every worker has seen before long."""
    return f"sim:paths=2,path=8-16 {_document(rng.randrange(DOCUMENTS))} {_text(rng, 8)}"


def replay(rng: Random) -> str:
    """A tree with the forks of a recorded answer of a 32B model, shorter."""
    return f"sim:{_directive(rng.choice(recorded_shapes()))} {_text(rng, 8)}"


@cache
def _document(number: int) -> str:
    return _text(Random(number), DOCUMENT_WORDS)


def _text(rng: Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


def _directive(shape: PathShape) -> str:
    """How many blocks and paths the shape has, how deep and how long they are."""
    blocks = [part for part in shape if isinstance(part, BlockShape)]
    if not blocks:
        return f"plain,path={_shorter(*_texts(shape))}"
    inside = [path for block in blocks for path in block.paths]
    counts = [len(block.paths) for block in blocks]
    return ",".join(
        [
            f"blocks={len(blocks)}",
            f"paths={min(counts)}-{max(counts)}",
            f"depth={_depth(shape)}",
            f"path={_shorter(*(sum(_texts(path)) for path in inside))}",
            f"outline={_shorter(*(size for block in blocks for size in block.outlines))}",
            f"conclusion={_shorter(*(block.conclusion for block in blocks))}",
            f"text={_shorter(*_texts(shape))}",
        ]
    )


def _depth(shape: PathShape) -> int:
    inside = [_depth(path) for part in shape if isinstance(part, BlockShape) for path in part.paths]
    return 1 + max(inside) if inside else 0


def _texts(shape: PathShape) -> list[int]:
    return [part for part in shape if isinstance(part, int)] or [1]


def _shorter(*sizes: int) -> str:
    return f"{max(1, min(sizes) // SHORTER)}-{max(1, max(sizes) // SHORTER)}"
