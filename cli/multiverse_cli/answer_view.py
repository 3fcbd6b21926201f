"""An answer in the terminal: its plan, all its paths side by side, what it concludes.

Knows events and rich. Must not know HTTP.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from multiverse_client import Event, Finish, Fork, Join, PathEnd, Usage
from multiverse_client import Text as TextEvent

STYLES = {"text": "", "tag": "dim cyan", "written": "dim magenta"}
MOST_COLUMNS = 4


@dataclass(slots=True)
class _Said:
    """What a path said in one go: pieces and their styles.

    Only ever appended to, so that the screen's own thread may draw it meanwhile; a rich `Text`
    rewrites its pieces when it is drawn and loses what is appended just then.
    """

    pieces: list[tuple[str, str]] = field(default_factory=list)

    def render(self) -> Text:
        return Text.assemble(*self.pieces, overflow="fold")


@dataclass(slots=True)
class _Path:
    name: str
    title: str = ""
    state: str = "running"
    parts: list[_Said | list[_Path]] = field(default_factory=list)

    def say(self, delta: str, kind: str) -> None:
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, _Said):
            last = _Said()
            self.parts.append(last)
        last.pieces.append((_plain(delta), STYLES[kind]))

    def render(self) -> RenderableType:
        """Texts, and each fork as a row of panels."""
        rows: list[RenderableType] = []
        for part in self.parts:
            if isinstance(part, _Said):
                rows.append(part.render())
            else:
                rows += _side_by_side([path.panel() for path in part])
        return Group(*rows)

    def panel(self) -> Panel:
        color = {"running": "yellow", "waiting": "blue"}.get(self.state, "green")
        return Panel(
            self.render(),
            title=Text(f"path {self.name} · {_plain(self.title)}"),
            subtitle=self.state,
            border_style=color,
        )


def _plain(text: str) -> str:
    """Without the characters that steer a terminal; line ends and tabs stay."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def _side_by_side(panels: list[Panel]) -> list[Table]:
    """Rows of panels of equal width."""
    rows: list[Table] = []
    for at in range(0, len(panels), MOST_COLUMNS):
        row = panels[at : at + MOST_COLUMNS]
        grid = Table.grid(expand=True)
        for _ in row:
            grid.add_column(ratio=1, overflow="fold")
        grid.add_row(*row)
        rows.append(grid)
    return rows


class AnswerView:
    """Feed it events; render it at any time."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._root = _Path("0")
        self._paths = {"0": self._root}
        self.usage: Usage | None = None
        self.finish_reason = ""

    def add(self, event: Event) -> None:
        match event:
            case TextEvent():
                self._paths[event.path].say(event.delta, event.kind)
            case Fork():
                children = [
                    _Path(name, title)
                    for name, title in zip(event.paths, event.outlines, strict=True)
                ]
                self._paths |= {child.name: child for child in children}
                self._paths[event.path].parts.append(list(children))
                self._paths[event.path].state = "waiting"
            case PathEnd():
                self._paths[event.path].state = f"ended: {event.reason}"
            case Join():
                self._paths[event.path].state = "running"
            case Usage():
                self.usage = event
            case Finish():
                self.finish_reason = event.reason

    def __rich__(self) -> RenderableType:
        return Group(Text(f"> {self._prompt}", "bold"), self._root.render())

    def summary(self, seconds: float) -> str:
        """One line of figures."""
        assert self.usage is not None, "the answer has not ended"
        usage = self.usage
        return (
            f"{usage.completion_tokens} tokens, {usage.critical_path_tokens} on the "
            f"critical path, parallelism {usage.parallelism:.2f}, {seconds:.2f} s, "
            f"finish: {self.finish_reason}"
        )
