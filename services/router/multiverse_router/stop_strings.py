"""Stop strings: where a text ends before its end.

Of several the one that is complete first counts; of those, the longest. So it does not matter how
the text is cut into pieces. Knows text only.
"""

from __future__ import annotations


class StopStrings:
    """Reads a text piece by piece; `found` is the one of `strings` that was in it."""

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = strings
        self._held = ""
        self.found: str | None = None

    @property
    def matched(self) -> bool:
        return self.found is not None

    def add(self, text: str) -> str:
        """What may be said now: all but what could begin a stop string; nothing after one."""
        if self.matched:
            return ""
        text = self._held + text
        found = [(text.find(s) + len(s), -len(s), s) for s in self._strings if s in text]
        if found:
            end, length, self.found = min(found)
            self._held = ""
            return text[: end + length]
        kept = max((_overlap(text, string) for string in self._strings), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def flush(self) -> str:
        """What is still held back: the text is cut here by something else."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, string: str) -> int:
    """Length of the longest end of `text` with which `string` begins."""
    longest = min(len(text), len(string))
    return next((n for n in range(longest, 0, -1) if text.endswith(string[:n])), 0)
