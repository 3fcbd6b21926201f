"""Where a model thinks: between two tags of one token each, in the root of its answer.

Knows ids; what a text looks like does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from multiverse_shared.errors import InvalidModel
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context, Text

_LAST = 4  # ids of a prompt; templates that open the thinking end in the tag and a line end


@dataclass(frozen=True, slots=True)
class Thinking:
    """Ids of the tags."""

    opens: int
    closes: int

    @classmethod
    def of(cls, tags: tuple[str, str], tokenizer: TextTokenizer) -> Thinking:
        """InvalidModel when a tag is not one token."""
        ids = [tokenizer.encode_trusted(tag) for tag in tags]
        for tag, found in zip(tags, ids, strict=True):
            if len(found) != 1:
                raise InvalidModel(
                    f"multiverse.json: the thinking tag {tag!r} has {len(found)} tokens; "
                    "add it to the tokenizer as one",
                    field="thinking",
                )
        return cls(ids[0][0], ids[1][0])

    def begun(self, prompt: Context) -> bool:
        """Whether the end of the prompt has opened the thinking."""
        last = prompt[-1]
        assert isinstance(last, Text)
        found = [token for token in last.ids[-_LAST:] if token in (self.opens, self.closes)]
        return bool(found) and found[-1] == self.opens

    def pieces(self, ids: Sequence[int]) -> Iterator[tuple[bool, tuple[int, ...]]]:
        """`ids` cut at the tags; true with a tag alone."""
        start = 0
        for index, token in enumerate(ids):
            if token in (self.opens, self.closes):
                if index > start:
                    yield False, tuple(ids[start:index])
                yield True, (token,)
                start = index + 1
        if start < len(ids):
            yield False, tuple(ids[start:])
