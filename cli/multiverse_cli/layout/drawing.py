"""What there is to draw of a tree: its tokens, their paths and positions, who sees whom.

The one model behind both drawings. Knows no terminal and no picture format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multiverse_cli.layout.source import Source
from multiverse_shared.errors import RequestTooLarge
from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.tree import Context, Text, count

MOST_TOKENS = 400
_COLOURS = (
    *("#9aa0a6", "#4c9be8", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948"),
    *("#ff9da7", "#9c755f"),
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token in linear order; `seen[j]`: it sees token number j (itself included)."""

    label: str
    path: str  # "0", "0.1", "0.1.2": numbered on over all blocks of the parent
    position: int
    seen: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that is drawn."""

    tokens: tuple[Token, ...]
    next_position: int

    @classmethod
    def of(cls, source: Source) -> Drawing:
        """RequestTooLarge when a drawing of the tree would show nothing."""
        context, size = source.context, count(source.context)
        if size > MOST_TOKENS:
            raise RequestTooLarge(
                f"the tree has {size} tokens and a drawing shows {MOST_TOKENS} at most: draw "
                "another one (--row N), or see its shape with `multiverse parse FILE --tree N`",
                field="file",
            )
        seen: list[tuple[bool, ...]] = []
        for segment in visibility(context):
            row = [False] * size
            for start, stop in segment.visible:
                row[start:stop] = [True] * (stop - start)
            for index in range(segment.start, segment.stop):
                row[index] = True
                seen.append(tuple(row))
        columns = zip(source.labels, _paths(context, "0"), positions(context), seen, strict=True)
        return cls(tuple(Token(*column) for column in columns), next_position(context))

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths that have tokens, in the order in which they begin."""
        return tuple(dict.fromkeys(token.path for token in self.tokens))

    def colour(self, path: str) -> str:
        """As #rrggbb; the root is grey, and after nine other paths colours come again."""
        if path == "0":
            return _COLOURS[0]
        others = [other for other in self.paths if other != "0"]
        return _COLOURS[1 + others.index(path) % (len(_COLOURS) - 1)]


def _paths(context: Context, path: str) -> Iterator[str]:
    """The path of each token in linear order."""
    forked = 0
    for item in context:
        if isinstance(item, Text):
            yield from [path] * len(item.ids)
        else:
            for inner in item.paths:
                forked += 1
                yield from _paths(inner, f"{path}.{forked}")
