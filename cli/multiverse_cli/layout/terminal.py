"""A drawing as lines of text: two rows of the mask share a line, as half blocks.

A column is a token that may be seen, in the colour of its path; a row is the token that looks.
"""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from multiverse_cli.layout.drawing import Drawing, Token

_HALVES = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
_PREVIEW = 40


def width(drawing: Drawing) -> int:
    """Columns that the mask and its axis take."""
    return _margin(drawing) + len(drawing.tokens)


def lines(drawing: Drawing) -> list[Text]:
    """Axis, mask and legend."""
    return [*_axis(drawing), *_mask(drawing), Text(), *_legend(drawing)]


def _digits(drawing: Drawing) -> int:
    return max((len(str(token.position)) for token in drawing.tokens), default=1)


def _names(drawing: Drawing) -> int:
    return max((len(token.path) for token in drawing.tokens), default=1)


def _margin(drawing: Drawing) -> int:
    """Columns left of the mask: a path, two positions; the axis above names itself there."""
    return max(len("position"), _names(drawing) + 2 * (_digits(drawing) + 1)) + 1


def _axis(drawing: Drawing) -> list[Text]:
    """Above the mask: the paths, then the positions from top to bottom."""
    margin, digits = _margin(drawing), _digits(drawing)
    out = [Text("path".rjust(margin - 1) + " ")]
    for path, group in groupby(drawing.tokens, key=lambda token: token.path):
        size = len(list(group))
        name = path if len(path) < size or path == "0" else ""
        out[0].append(name.ljust(size), style=drawing.colour(path))
    for digit in range(digits):
        line = Text(("position" if digit == digits - 1 else "").rjust(margin - 1) + " ")
        for token in drawing.tokens:
            figure = str(token.position).rjust(digits)[digit]
            line.append(figure, style=drawing.colour(token.path))
        out.append(line)
    return out


def _mask(drawing: Drawing) -> list[Text]:
    tokens, out = drawing.tokens, []
    digits = _digits(drawing)
    names = _margin(drawing) - 2 * (digits + 1) - 1
    last = None
    for at in range(0, len(tokens), 2):
        pair = tokens[at : at + 2]
        name = next((token.path for token in reversed(pair) if token.path != last), "")
        last = pair[-1].path
        line = Text()
        line.append(name.ljust(names), style=drawing.colour(name or last))
        for row in range(2):
            figure = str(pair[row].position) if row < len(pair) else ""
            line.append(
                " " + figure.rjust(digits), style=drawing.colour(pair[row % len(pair)].path)
            )
        line.append(" ")
        for column, token in enumerate(tokens):
            line.append(_half(pair, column), style=drawing.colour(token.path))
        out.append(line)
    return out


def _half(pair: tuple[Token, ...], column: int) -> str:
    upper, lower = pair[0].seen[column], len(pair) > 1 and pair[1].seen[column]
    return _HALVES[upper, lower]


def _legend(drawing: Drawing) -> list[Text]:
    """A line for each path, and what follows."""
    out = []
    for path in drawing.paths:
        own = [token for token in drawing.tokens if token.path == path]
        at = [token.position for token in own]
        line = Text("■ ", style=drawing.colour(path))
        line.append(f"path {path}", style=drawing.colour(path))
        said = f"{len(own)} tokens at positions {min(at)} to {max(at)}"
        line.append(f": {said}  {_preview(own)}", style="default")
        out.append(line)
    return [*out, Text(f"{len(drawing.tokens)} tokens, the next one at {drawing.next_position}")]


def _preview(tokens: list[Token]) -> str:
    gap = " " if all(token.label.lstrip("-").isdigit() for token in tokens) else ""
    said = gap.join(token.label for token in tokens).replace("\n", "⏎")
    return said if len(said) <= _PREVIEW else said[: _PREVIEW - 1] + "…"
