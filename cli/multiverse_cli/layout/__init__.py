"""`multiverse layout`: who sees whom in a small tree, and where its tokens stand, as a drawing.

`source` reads a tree, `drawing` works out what there is to draw, `terminal` and `png` draw it.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from multiverse_cli.layout.drawing import Drawing
from multiverse_cli.layout.png import write
from multiverse_cli.layout.source import load
from multiverse_cli.layout.terminal import lines, width
from multiverse_shared.errors import RequestTooLarge

__all__ = ["draw"]


def draw(console: Console, file: Path, row: int, dialect: str, png: Path | None) -> None:
    """Draw into `png`, when it is given, and on the console.

    RequestTooLarge when the console is too narrow and there is no picture either.
    """
    drawing = Drawing.of(load(file, row, dialect))
    if png is not None:
        write(drawing, png)
    if (needed := width(drawing)) <= console.width:
        for line in lines(drawing):
            console.print(line, no_wrap=True, crop=True)
    elif png is not None:
        console.print(f"the mask is wider than the terminal; see {png}", markup=False)
    else:
        raise RequestTooLarge(
            f"the mask needs {needed} columns and the terminal has {console.width}: widen it (or "
            "set COLUMNS), or write a picture with --png OUT",
            field="file",
        )
