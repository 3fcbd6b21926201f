"""An answer on the screen: plan, paths side by side with their states, conclusion, figures."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from rich.console import Console

from multiverse_cli.answer_view import AnswerView
from multiverse_client import Event, Finish, Fork, Join, PathEnd, Text, Usage

WIDTH = 100


def text(path: str, delta: str, kind: str = "text") -> Event:
    return Text(0, path, kind, delta, ())


def fork(path: str, *outlines: str, first: int = 1) -> Event:
    paths = tuple(f"{path}.{number}" for number in range(first, first + len(outlines)))
    return Fork(0, path, len(paths), paths, outlines)


def end(path: str, reason: str = "stop") -> Event:
    return PathEnd(0, path, reason, False)


def join(path: str, k: int = 2) -> Event:
    return Join(0, path, k, ())


USAGE = Usage(
    seq=0,
    prompt_tokens=8,
    completion_tokens=120,
    written_tokens=9,
    critical_path_tokens=48,
    parallelism=2.5,
    cached_tokens=0,
    reused_tokens=0,
)
FINISH = Finish(0, "length")


def view(*events: Event, prompt: str = "why?") -> AnswerView:
    shown = AnswerView(prompt)
    for event in events:
        shown.add(event)
    return shown


def lines(shown: AnswerView, width: int = WIDTH) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO(), color_system=None)
    console.print(shown)
    return console.export_text().splitlines()


def line_with(shown: AnswerView, *words: str) -> str:
    found = [line for line in lines(shown) if all(word in line for word in words)]
    assert found, f"no line has all of {words}:\n" + "\n".join(lines(shown))
    return found[0]


def test_the_prompt_stands_first() -> None:
    assert lines(view(text("0", "because")))[:2] == ["> why?", "because"]


def test_paths_stand_side_by_side_with_their_outlines_and_their_text() -> None:
    shown = view(
        fork("0", "1:left", "2:right"), text("0.1", "on the left"), text("0.2", "on the right")
    )
    titles = line_with(shown, "path 0.1", "1:left", "path 0.2", "2:right")
    assert titles.index("path 0.1") < titles.index("path 0.2")
    body = line_with(shown, "on the left", "on the right")
    assert body.index("on the left") < body.index("on the right")


def test_each_path_shows_its_state() -> None:
    shown = view(fork("0", "a", "b"), fork("0.2", "c", "d"), end("0.1", "length"))
    assert line_with(shown, "ended: length")
    assert line_with(shown, "waiting")
    assert line_with(shown, "running")
    for path in ("0.2.1", "0.2.2"):
        shown.add(end(path))
    shown.add(join("0.2"))
    assert line_with(shown, "running")
    assert not [line for line in lines(shown) if "waiting" in line]


def test_a_nested_fork_is_drawn_inside_its_path() -> None:
    shown = view(
        fork("0", "outer", "other"),
        text("0.1", "before"),
        fork("0.1", "in one", "in two"),
        text("0.1.1", "deep one"),
        text("0.1.2", "deep two"),
        end("0.1.1"),
        end("0.1.2"),
        join("0.1"),
        text("0.1", "after"),
        text("0.2", "beside"),
    )
    rows = lines(shown, 160)
    order = [
        next(number for number, row in enumerate(rows) if word in row)
        for word in ("path 0.1 ", "before", "path 0.1.1", "deep one", "after")
    ]
    assert order == sorted(order)
    inner = next(row for row in rows if "path 0.1.1" in row)
    assert "path 0.1.2" in inner
    assert inner.startswith("│ ")


def test_what_follows_a_join_stands_below_the_paths() -> None:
    shown = view(
        text("0", "plan"),
        fork("0", "a", "b"),
        text("0.1", "one"),
        text("0.2", "two"),
        join("0"),
        text("0", "conclusion"),
    )
    rows = "\n".join(lines(shown))
    assert rows.index("plan") < rows.index("one") < rows.index("conclusion")


def test_many_paths_take_several_rows() -> None:
    shown = view(fork("0", *"abcdef"), *(text(f"0.{n}", f"body{n}") for n in range(1, 7)))
    assert line_with(shown, "body1", "body2", "body3", "body4")
    assert line_with(shown, "body5", "body6")


def test_a_second_fork_of_a_path_is_drawn_below_the_first() -> None:
    shown = view(
        fork("0", "a"),
        text("0.1", "first"),
        join("0"),
        fork("0", "b", first=2),
        text("0.2", "then"),
    )
    rows = "\n".join(lines(shown))
    assert rows.index("first") < rows.index("then")


@pytest.mark.parametrize("outline", ["1: [bold]x", "2: list[int]", "see [/b]", "[/]", "[link=x]"])
def test_an_outline_is_shown_as_it_was_written(outline: str) -> None:
    """Models write brackets; they are no markup."""
    assert line_with(view(fork("0", outline, "b")), outline)


@pytest.mark.parametrize("said", ["[bold]x[/bold]", "[/nothing]", "a[0]"])
def test_text_and_prompt_are_shown_as_they_were_written(said: str) -> None:
    assert lines(view(text("0", said), prompt=said)) == [f"> {said}", said]


def test_model_text_cannot_steer_the_terminal() -> None:
    shown = view(fork("0", "a\x1b[2Jb"), text("0.1", "c\x1b]0;title\x07d"), text("0", "\x1b[31me"))
    assert not any("\x1b" in line for line in lines(shown))


def test_text_that_grows_while_it_is_drawn_is_not_lost() -> None:
    """The screen is refreshed by a thread of its own."""
    shown = AnswerView("why?")
    console = Console(width=WIDTH, file=io.StringIO(), color_system=None)
    done = threading.Event()

    def draw() -> None:
        while not done.is_set():
            console.print(shown)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        for number in range(400):
            shown.add(text("0", f"{number} "))
    finally:
        done.set()
        drawing.join()
        sys.setswitchinterval(interval)
    said = " ".join(lines(shown)[1:]).split()
    assert said == [str(number) for number in range(400)]


def test_the_summary_is_one_line_of_figures() -> None:
    summary = view(USAGE, FINISH).summary(1.234)
    assert "\n" not in summary
    for figure in ("120 tokens", "48", "2.50", "1.23 s", "length"):
        assert figure in summary
