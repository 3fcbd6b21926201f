"""Does a model fork when it is asked in words? The same questions without and with them."""

from __future__ import annotations

from dataclasses import replace

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock, encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.tree import linearise
from multiverse_trainer.evaluation.endpoint import Way

_EXAMPLE = TextBlock(
    ("what the first part is", "what the second part is"),
    (("the work of the first part alone",), ("the work of the second part alone",)),
    ("what follows from all parts",),
)
_WORDS = """\
Solve the problem below. Where parts of the work do not depend on each other, do not write them \
one after another: plan them and write each in a path of its own that does not use the others, in \
exactly this form, with as many paths as outlines:

{example}

You may do so several times, also inside a path. Go on after it, to the final answer."""


def prompting_words(dialect: str) -> str:
    """What a model is told of a dialect. ValueError for one without plans."""
    loaded = load_dialect(dialect)
    if not loaded.parent_waits:
        raise ValueError(f"dialect {dialect!r} has no plans that words could ask for")
    tokenizer = CharacterTokenizer(loaded)
    context = encode((_EXAMPLE,), Grammar.bind(loaded, tokenizer))
    return _WORDS.format(example=tokenizer.decode(linearise(context)))


def prompting_ways(way: Way, dialect: str) -> list[Way]:
    """`way` as it is, and with words."""
    return [way, replace(way, name=f"{way.name}-words", words=prompting_words(dialect))]
