"""`multiverse chat`: ask, and watch the answer fork and join."""

from __future__ import annotations

import os
import time

from rich.console import Console
from rich.live import Live

from multiverse_cli.answer_view import AnswerView
from multiverse_cli.keys import API_KEY
from multiverse_client import Client, Options, Text

REFRESHES_PER_S = 20


def ask(console: Console, url: str, prompt: str, options: Options, pace_s: float) -> None:
    """Show one answer. With `pace_s` each event is shown that much later than it came."""
    view = AnswerView(prompt)
    begun = time.monotonic()
    waited = 0.0
    with (
        Client(url, api_key=os.environ.get(API_KEY)) as client,
        client.stream(prompt, **options) as stream,
        Live(view, console=console, refresh_per_second=REFRESHES_PER_S) as live,
    ):
        for event in stream:
            view.add(event)
            if pace_s and console.is_terminal and isinstance(event, Text):
                time.sleep(pace_s)
                waited += pace_s
        seconds = time.monotonic() - begun - waited
        live.refresh()
    if not console.is_terminal:
        console.print()
    console.print(f"[bold]{view.summary(seconds)}[/bold]")


def converse(console: Console, url: str, options: Options, pace_s: float) -> None:
    """Ask what is typed, one question after another, until end of input."""
    while True:
        try:
            prompt = console.input("[bold green]> [/]").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if prompt:
            ask(console, url, prompt, options, pace_s)
