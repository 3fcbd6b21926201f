"""Token ids to text, one path at a time, as they come.

Text is held back while its last character may still be incomplete.
"""

from __future__ import annotations

from multiverse_shared.tokenizer import TextTokenizer

_INCOMPLETE = "\ufffd"


class Detokenizer:
    """Concatenating what `add` and `flush` return gives the text of all ids added."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []  # ids already said, needed to decode the next ones
        self._pending: list[int] = []

    def add(self, ids: tuple[int, ...]) -> str:
        """The new text that is certain."""
        self._pending.extend(ids)
        text = self._new_text()
        return "" if text.endswith(_INCOMPLETE) else self._said(text)

    def flush(self) -> str:
        """What is still held back, complete or not."""
        return self._said(self._new_text()) if self._pending else ""

    def _new_text(self) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode(self._context + self._pending)[len(before) :]

    def _said(self, text: str) -> str:
        self._context, self._pending = self._pending, []
        return text
