"""A drawing as a PNG picture: the mask, and below it the position of each token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiverse_cli.layout.drawing import Drawing
from multiverse_shared.errors import InvalidRequest

_MOST_TICKS = 60
_UNSEEN = (1.0, 1.0, 1.0)


def write(drawing: Drawing, path: Path) -> None:
    """InvalidRequest when matplotlib is not installed."""
    try:
        from matplotlib.colors import to_rgb
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError:
        raise InvalidRequest(
            "--png needs matplotlib: install the extra `multiverse-cli[png]` (in a checkout: "
            "`make setup-all`), or leave --png out",
            field="png",
        ) from None
    tokens = drawing.tokens
    colours = [drawing.colour(token.path) for token in tokens]
    shades = [to_rgb(colour) for colour in colours]
    side = min(14.0, max(5.0, len(tokens) / 8))
    figure = Figure(figsize=(side + 1.5, side * 1.35), layout="constrained")
    mask, places = figure.subplots(2, 1, height_ratios=(4, 1))
    if tokens:
        mask.imshow(
            [
                [shades[j] if sees else _UNSEEN for j, sees in enumerate(token.seen)]
                for token in tokens
            ],
            interpolation="nearest",
            aspect="equal",
        )
    every = max(1, -(-len(tokens) // _MOST_TICKS))
    for axis in (mask.xaxis, mask.yaxis, places.xaxis):
        _label(axis, drawing, colours, every)
    mask.tick_params(axis="x", labelrotation=90)
    places.tick_params(axis="x", labelrotation=90)
    mask.set(title=f"{len(tokens)} tokens, the next one at {drawing.next_position}")
    mask.set(xlabel="seen token (its position)", ylabel="token that sees (its position)")
    places.scatter(range(len(tokens)), [token.position for token in tokens], c=colours, s=12)
    places.set(ylabel="position", xlim=(-0.5, max(0.5, len(tokens) - 0.5)))
    handles = [Patch(color=drawing.colour(name), label=f"path {name}") for name in drawing.paths]
    if handles:
        mask.legend(handles=handles, loc="upper right", fontsize="small")
    figure.savefig(path, format="png", dpi=100)


def _label(axis: Any, drawing: Drawing, colours: list[str], every: int) -> None:
    """Every so many tokens a tick with the token's position, in the colour of its path."""
    at = range(0, len(drawing.tokens), every)
    axis.set_ticks(list(at), [str(drawing.tokens[i].position) for i in at], fontsize="x-small")
    for tick, i in zip(axis.get_ticklabels(), at, strict=True):
        tick.set_color(colours[i])
