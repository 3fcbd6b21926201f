"""Token ids to text, one path at a time, as they come.

Text is held back while its last character may still be incomplete.
"""

from __future__ import annotations

from multiverse_shared.tokenizer import TextTokenizer

_INCOMPLETE = "\ufffd"
_LONGEST_HELD = 8  # ids; no character that is still to be completed has more
_LONGEST_CHARACTER = 4  # bytes of UTF-8, so at most as many ids


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
        if not text.endswith(_INCOMPLETE):
            return self._said(text)
        complete = self._complete()
        if complete or len(self._pending) <= _LONGEST_HELD:
            return complete
        return self._settled(text)

    def flush(self) -> str:
        """What is still held back, complete or not."""
        return self._said(self._new_text()) if self._pending else ""

    def _new_text(self) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode(self._context + self._pending)[len(before) :]

    def _said(self, text: str) -> str:
        self._context, self._pending = self._pending, []
        return text

    def _complete(self) -> str:
        """What stands before the last character, where only that one is incomplete.

        Some tokenizers decode a whole run of bytes to nothing but marks until it is complete.
        """
        pending = self._pending
        for kept in range(1, min(_LONGEST_CHARACTER, len(pending))):
            self._pending = pending[:-kept]
            said = self._new_text()
            if said and not said.endswith(_INCOMPLETE):
                self._said(said)
                self._pending = pending[-kept:]
                return said
        self._pending = pending
        return ""

    def _settled(self, text: str) -> str:
        """Of a run of bytes that are no text, all but the beginning of its last character."""
        pending = self._pending
        for kept in range(_LONGEST_CHARACTER - 1, 2 * _LONGEST_CHARACTER):
            self._pending = pending[:-kept]
            said = self._new_text()
            if text.startswith(said):
                self._said(said)
                self._pending = pending[-kept:]
                return said
        self._pending = pending
        return ""
