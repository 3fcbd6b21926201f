"""`multiverse key`: keys for the router's API, and where the command has its own."""

from __future__ import annotations

from typing import Annotated

import typer

from multiverse_shared.api_keys import new_key

API_KEY = "MULTIVERSE_API_KEY"  # environment: the key that chat and generate send
key_app = typer.Typer(no_args_is_help=True, help="API keys of a router.")


@key_app.callback()
def keys() -> None:
    """API keys of a router."""


@key_app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Whose key it is: letters, digits and . _ -")],
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=999_999, help="Answers in flight under this name.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, max=999_999_999, help="Answers begun in a minute.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, max=999_999_999, help="Tokens in a minute.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=100, help="The higher goes first in the queue.")
    ] = None,
) -> None:
    """Make a key: the first line is the key, the second one goes into the router's key file."""
    key, line = new_key(
        name, concurrency=concurrency, requests=requests, tokens=tokens, priority=priority
    )
    typer.echo(key)
    typer.echo(line)
