"""From a record to the token tree that a model is trained on, in either rendering.

parallel: prompt with the suffix, the tree, the answer. sequential: prompt, the reasoning as
plain text, the answer. twin: the tree without its tags and markup, as plain text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from multiverse_shared.encode import TextTree, encode
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.tree import Context, Text
from multiverse_trainer.data.markup import read_markup
from multiverse_trainer.data.record import Record


class Rendering(StrEnum):
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    TWIN = "twin"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the texts of a record, in ids or as text.

    `head` and `tail` are what the chat template writes before and after the user's text;
    `answer_lead` stands between reasoning and answer and may use the model's control tokens.
    """

    head: Ids
    tail: Ids
    suffix: str
    answer_lead: Ids
    end: Ids


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt, the reasoning in pieces that are kept or left out as a whole, and what ends it.

    A piece that is one text may be cut; a block with its plan and conclusion may not.
    """

    prompt: Text
    pieces: tuple[Context, ...]
    close: Text


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the records of one dialect."""

    grammar: Grammar
    frame: Frame

    def render(self, record: Record, rendering: Rendering) -> Rendered:
        """InvalidRequest when the record is of another dialect or its markup is ill-formed."""
        name = self.grammar.dialect.name
        if record.dialect != name:
            raise InvalidRequest(f"dialect: {record.dialect!r}, not {name!r} of this run")
        frame, encode_text = self.frame, self.grammar.tokenizer.encode
        suffix = frame.suffix if rendering is Rendering.PARALLEL else ""
        prompt = Text((*frame.head, *encode_text(record.prompt + suffix), *frame.tail))
        pieces = self._reasoning(record, rendering, len(prompt.ids))
        close = Text((*frame.answer_lead, *encode_text(record.answer), *frame.end))
        return Rendered(prompt, tuple(pieces), close)

    def _reasoning(self, record: Record, rendering: Rendering, start: int) -> list[Context]:
        if rendering is Rendering.SEQUENTIAL:
            return [encode((record.reasoning,), self.grammar)]
        if record.markup is not None:
            context = read_markup(record.markup, self.grammar, start)
            if rendering is Rendering.PARALLEL:
                return [context]
            return [encode((strip(record.markup, self.grammar),), self.grammar)]
        if rendering is Rendering.TWIN:
            return [encode((plain(record.text_tree),), self.grammar)]
        return [encode((node,), self.grammar) for node in record.text_tree]


def plain(tree: TextTree) -> str:
    """The texts of a tree in linear order, a line apart; neither tags nor labels."""
    return "\n".join(text for text in _texts(tree) if text)


def _texts(tree: TextTree) -> list[str]:
    out: list[str] = []
    for node in tree:
        if isinstance(node, str):
            out.append(node.strip("\n"))
        else:
            out.extend(outline.strip() for outline in node.outlines)
            for path in node.paths:
                out.extend(_texts(path))
            out.extend(_texts(node.conclusion))
    return out


def strip(markup: str, grammar: Grammar) -> str:
    """Marked text without the dialect's tags."""
    for spelling in sorted(grammar.dialect.tags.values(), key=len, reverse=True):
        markup = markup.replace(spelling, "")
    return markup
