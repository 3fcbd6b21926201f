"""`multiverse curate submit | watch`: jobs of a curator service, from here.

A client of its API and no more: needs nothing of the curator.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from multiverse_cli.errors import InputError
from multiverse_cli.keys import API_KEY

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 300.0  # of one request; an upload may take its time
POLL_S = 1.0
AWAY_S = 60.0  # that a service which was there may be away

UrlOption = Annotated[str, typer.Option(help="A running curator service.")]


class PriorityName(StrEnum):
    low = "low"
    normal = "normal"
    high = "high"


def submit(
    file: Annotated[Path, typer.Argument(help='JSONL (or .gz) with "prompt" and "reasoning".')],
    url: UrlOption = DEFAULT_URL,
    teacher: Annotated[str, typer.Option(help="A teacher of the service, by name.")] = "rules",
    name: Annotated[str, typer.Option(help="For people; the file's if left out.")] = "",
    priority: Annotated[PriorityName, typer.Option()] = PriorityName.normal,
    budget: Annotated[float | None, typer.Option(min=0, help="Pause before it is more.")] = None,
    in_flight: Annotated[int | None, typer.Option(min=1, help="Samples at once.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=JSON: any other option of the API.")
    ] = None,
    submission: Annotated[
        str | None, typer.Option(help="Your own key: submitted again, it is the same job.")
    ] = None,
    follow: Annotated[bool, typer.Option("--watch", help="Watch it to its end.")] = False,
) -> None:
    """Submit a file to a curator service; prints the job as a JSON line."""
    given = {"teacher": teacher, "name": name, "priority": priority.value}
    options: dict[str, Any] = {**given, **_pairs(option or [])}
    options |= {} if budget is None else {"budget": budget}
    options |= {} if in_flight is None else {"in_flight": in_flight}
    headers = {"idempotency-key": submission} if submission else {}
    with _service(url) as service, file.open("rb") as opened:
        response = service.post(
            "/v1/jobs/upload",
            files={"file": (file.name, opened)},
            data={"options": json.dumps(options)},
            headers=headers,
        )
        job = _told(response)
        typer.echo(json.dumps(job))
        if follow:
            _watch(service, str(job["id"]))


def watch(
    job: Annotated[str, typer.Argument(help="Id of the job.")], url: UrlOption = DEFAULT_URL
) -> None:
    """Follow a job of a curator service to its end; the last line is the job as JSON."""
    with _service(url) as service:
        _watch(service, job)


def _watch(service: httpx.Client, job: str) -> None:
    """Exits with 1 when the job ended, or stopped, without being done."""
    told = _told(service.get(f"/v1/jobs/{job}"))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=None)
        heard = time.monotonic()
        while True:
            pending = told["samples"]["pending"]
            total = sum(told["samples"][name] for name in ("pending", *_ENDS))
            text = f"{told['state']}: yield {told['yields']:.1%}, cost {told['spent']:.4f}"
            progress.update(bar, description=text, total=total, completed=total - pending)
            if told["state"] != "running":
                break
            time.sleep(POLL_S)
            try:
                told = _told(service.get(f"/v1/jobs/{job}"))
                heard = time.monotonic()
            except httpx.TransportError:
                if time.monotonic() - heard > AWAY_S:
                    raise
    typer.echo(json.dumps(told))
    if told["state"] != "done":
        raise typer.Exit(1)


_ENDS = ("converted", "sequential", "dead")


@contextmanager
def _service(url: str) -> Iterator[httpx.Client]:
    """Transport errors become one line."""
    key = os.environ.get(API_KEY)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S) as client:
            yield client
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise InputError(
            f"no curator service at {url}: {error}; start one with "
            "`python -m multiverse_curator api` and `worker`"
        ) from None


def _told(response: httpx.Response) -> dict[str, Any]:
    """The body; InputError with what the service says is wrong."""
    try:
        body: dict[str, Any] = response.json()
    except ValueError:
        raise InputError(f"{response.url} is no curator service: {response.status_code}") from None
    if response.is_error:
        error = body.get("error")
        raise InputError(str(error["message"] if isinstance(error, dict) else body))
    return body


def _pairs(options: list[str]) -> dict[str, Any]:
    pairs = {}
    for option in options:
        name, equals, value = option.partition("=")
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            pairs[name] = value
        if not equals or not name:
            raise typer.BadParameter(f"{option!r}: give NAME=JSON", param_hint="--option")
    return pairs
