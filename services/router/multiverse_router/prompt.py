"""A chat as the tree that an answer goes on from.

What an assistant said is a tree where it was one; what anyone else says is plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from multiverse_router.chat_template import CUT, ChatTemplate
from multiverse_router.client_text import Piece
from multiverse_router.history import HistoryReader
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, Text, linearise, normalise


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. Where there is a `context`, that is what was said, whatever `content` says."""

    role: str
    content: str
    context: Context | None = None


@dataclass(frozen=True, slots=True)
class PromptWriter:
    """Writes prompts for one model."""

    tokenizer: TextTokenizer
    template: ChatTemplate
    history: HistoryReader
    suffix: str  # turns parallel thinking on

    def write(self, turns: Sequence[Turn], *, parallel: bool) -> Context:
        """The prompt in normal form. InvalidRequest when the template refuses the turns.

        The suffix ends the last user message if `parallel`. Earlier ones have it as well, and
        without `parallel` those that were answered with a block: so the prompt begins as that
        of the earlier answers did, and their KV is found again.
        """
        chat = [self._spelled(turn) for turn in turns]
        trees = [self._tree(turn) for turn in chat]
        for index in self._with_suffix(chat, trees, parallel):
            content = chat[index].content.removesuffix(self.suffix) + self.suffix
            chat[index] = replace(chat[index], content=content)
        messages = [{"role": turn.role, "content": turn.content} for turn in chat]
        pieces = self.template.render(messages)
        return normalise(tuple(item for piece in pieces for item in self._read(piece, chat, trees)))

    def bare(self, text: str) -> tuple[list[int], list[int]]:
        """What begins a sequence of this model, and `text`, without the template."""
        beginning = self.template.beginning
        begins = self.tokenizer.encode_trusted(beginning) if beginning else []
        return begins, self.tokenizer.encode(text)

    def _spelled(self, turn: Turn) -> Turn:
        """The turn with the content that its context has."""
        if turn.context is None:
            return turn
        return replace(turn, content=self.tokenizer.decode(linearise(turn.context)))

    def _tree(self, turn: Turn) -> Context | None:
        if turn.context is not None:
            return turn.context
        return self.history.read(turn.content) if turn.role == "assistant" else None

    def _with_suffix(
        self, chat: Sequence[Turn], trees: Sequence[Context | None], parallel: bool
    ) -> list[int]:
        """Indices of the user messages that the suffix ends."""
        found: list[int] = []
        asked: int | None = None  # the user message that is not answered yet
        for index, (turn, tree) in enumerate(zip(chat, trees, strict=True)):
            if turn.role == "user":
                asked = index
            elif turn.role == "assistant" and asked is not None:
                if parallel or any(isinstance(item, Block) for item in tree or ()):
                    found.append(asked)
                asked = None
        return [*found, asked] if parallel and asked is not None else found

    def _read(self, piece: Piece, chat: Sequence[Turn], trees: Sequence[Context | None]) -> Context:
        if piece.message is None:
            return (Text(tuple(self.tokenizer.encode_trusted(piece.text))),)
        turn, tree = chat[piece.message], trees[piece.message]
        if tree is not None and piece.text == turn.content:
            return tree
        if turn.context is not None:
            raise InvalidRequest(CUT, field=f"messages.{piece.message}.multiverse.context")
        return (Text(tuple(self.tokenizer.encode(piece.text))),)
