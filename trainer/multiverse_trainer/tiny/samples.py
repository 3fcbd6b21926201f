"""From a task to a training sample, in forks or in plain sequence.

Knows which tokens the model has to learn to write. Where tokens stand and what they see comes
from `multiverse_shared`; must not know tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.encode import encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.layout import Segment, positions, visibility
from multiverse_shared.tree import Context, Text, linearise, texts
from multiverse_trainer.tiny.tasks import Task, sequential
from multiverse_trainer.tiny.vocabulary import SUFFIX, Vocabulary


@dataclass(frozen=True, slots=True)
class Sample:
    """Tokens in linear order. `learned[i]`: token i is the model's own, so it bears loss.

    A learned token is predicted from the one before it in linear order. That is the token it
    follows at serving time too: the system writes a header in front of every path and every
    conclusion, so that no learned token stands first in a path or directly after a block.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    segments: tuple[Segment, ...]
    learned: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.ids)


def context_of(task: Task, grammar: Grammar, vocabulary: Vocabulary, *, parallel: bool) -> Context:
    """Prompt (the first item) and answer of a task, with the end token."""
    suffix = SUFFIX if parallel else ""
    prompt = Text((vocabulary.bos, *vocabulary.encode(task.prompt + suffix)))
    answer = encode(task.tree if parallel else (sequential(task),), grammar)
    return (prompt, *answer, Text((vocabulary.eos,)))


def make_sample(task: Task, grammar: Grammar, vocabulary: Vocabulary, *, parallel: bool) -> Sample:
    """ValueError if the dialect lets a path or a conclusion start without a header."""
    if not grammar.path_header("1") or not grammar.join_header:
        raise ValueError(f"dialect {grammar.dialect.name!r} needs a path and a join header")
    context = context_of(task, grammar, vocabulary, parallel=parallel)
    learned = [False] * len(linearise(context[:1]))
    for text in texts(context[1:]):
        learned.extend([not text.written] * len(text.ids))
    return Sample(
        linearise(context),
        tuple(positions(context)),
        tuple(visibility(context)),
        tuple(learned),
    )
