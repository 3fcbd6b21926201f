"""`multiverse curate`: parallel training data out of ordinary chains of thought.

The curator is an extra (`multiverse-cli[curate]`), so it is imported when a command runs.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from multiverse_cli.curate_service import submit, watch
from multiverse_cli.errors import InputError

if TYPE_CHECKING:
    from multiverse_curator.asking import Terms
    from multiverse_curator.pipeline import Rules
    from multiverse_curator.store import State, Store
    from multiverse_curator.teachers.contract import Teacher

curate_app = typer.Typer(no_args_is_help=True, help="Make parallel training data.")
curate_app.command()(submit)
curate_app.command()(watch)
StoreOption = Annotated[Path, typer.Option(help="SQLite file with all samples and calls.")]
DEFAULT_STORE = Path("curate.db")


class TeacherName(StrEnum):
    rules = "rules"
    openai = "openai"
    gemini = "gemini"


class FormatName(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


@curate_app.command()
def run(
    file: Annotated[
        Path | None,
        typer.Argument(help='JSONL (or .gz) with "prompt" and "reasoning"; none: go on.'),
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    teacher: Annotated[TeacherName, typer.Option(help="Who answers.")] = TeacherName.rules,
    model: Annotated[str | None, typer.Option(help="Model of the teacher.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of its API.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.")] = 300.0,
    structured: Annotated[
        bool, typer.Option(help="openai: the endpoint takes JSON schemas.")
    ] = True,
    thinking_budget: Annotated[
        int | None, typer.Option(help="gemini: tokens of thought per answer; 0: none.")
    ] = None,
    max_output_tokens: Annotated[int, typer.Option(min=1, help="Of one answer.")] = 16384,
    in_flight: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 64,
    attempts: Annotated[int, typer.Option(min=1, help="Of one question.")] = 6,
    requests_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    price_input: Annotated[float, typer.Option(help="Per million tokens.")] = 0.0,
    price_output: Annotated[float, typer.Option(help="Per million tokens.")] = 0.0,
    budget: Annotated[float | None, typer.Option(help="Stop before it is exceeded.")] = None,
    dialect: Annotated[str, typer.Option(help="Of the samples made.")] = "multiverse",
    tries: Annotated[int, typer.Option(min=1, help="Of a stage whose answer is refused.")] = 3,
    max_distance: Annotated[float, typer.Option(help="Of the refilled text, 0 to 1.")] = 0.2,
    independence_model: Annotated[
        Path | None, typer.Option(help="Causal LM directory that measures independence.")
    ] = None,
    max_dependence: Annotated[
        float | None, typer.Option(help="Nats per token that a path may gain by its siblings.")
    ] = None,
) -> None:
    """Take every sample through all stages; goes on where an earlier run ended."""
    with _curator():
        from multiverse_curator.asking import Price, Terms
        from multiverse_curator.pace import LocalPace
        from multiverse_curator.pipeline import Rules
        from multiverse_curator.teachers.choice import TeacherChoice, TeacherKind

        independence = None
        if independence_model:
            from multiverse_curator.checks.independence import LikelihoodIndependence

            independence = LikelihoodIndependence(independence_model)
        elif max_dependence is not None:
            raise typer.BadParameter("--max-dependence needs --independence-model")
        rules = Rules(dialect, tries, max_distance, independence, max_dependence)
        terms = Terms(
            max_output_tokens, attempts, price=Price(price_input, price_output), budget=budget
        )
        choice = TeacherChoice(
            TeacherKind(teacher.value),
            model,
            base_url,
            timeout_s=timeout,
            structured=structured,
            thinking_budget=thinking_budget,
        )
        pace = LocalPace(requests_per_minute, tokens_per_minute)
        with _opened(store) as opened:
            if file:
                _load(opened, file)
            begun = time.monotonic()
            stopped = asyncio.run(_run(opened, choice.make(), pace, terms, rules, in_flight))
            seconds = round(time.monotonic() - begun, 3)
            typer.echo(json.dumps({**opened.counts(), "seconds": seconds, "stopped": stopped}))
    if stopped:
        raise typer.Exit(1)


async def _run(
    store: Store, teacher: Teacher, pace: Any, terms: Terms, rules: Rules, in_flight: int
) -> str:
    """Why it stopped before the end, if it did."""
    from multiverse_curator.asking import Asking
    from multiverse_curator.engine import run as run_all
    from multiverse_curator.pipeline import Pipeline

    pipeline = Pipeline(store, Asking(teacher, store.ledger, pace, terms), rules)
    pending = store.counts()["samples"].get("pending", 0)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("samples", total=pending)

        def advance(state: State) -> None:
            progress.advance(bar)

        try:
            result = await run_all(pipeline, store, in_flight, advance)
        finally:
            await teacher.close()
    return result.stopped


def _load(store: Store, file: Path) -> None:
    from multiverse_curator.engine import load
    from multiverse_curator.source import read_sources

    def broken(line: int, reason: str) -> None:
        store.add_broken_row(file.name, line, reason)
        typer.echo(f"multiverse: {file}:{line}: {reason}; the row is left out", err=True)

    load(store, read_sources(file, broken))


@curate_app.command()
def export(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    store: StoreOption = DEFAULT_STORE,
    format: Annotated[FormatName, typer.Option(help="Of the data files.")] = FormatName.jsonl,
    validation: Annotated[float, typer.Option(min=0, max=1, help="Share held out.")] = 0.05,
) -> None:
    """Write the converted samples as a dataset with its card."""
    with _curator():
        from multiverse_curator.export import Format
        from multiverse_curator.export import export as write

        with _opened(store) as opened:
            card = write(opened, out, Format(format.value), validation)
    typer.echo(json.dumps(card))


@curate_app.command()
def stats(
    file: Annotated[Path, typer.Argument(help='JSONL (or .gz): rows with "tree" or "output".')],
    dialect: Annotated[str, typer.Option(help="Dialect of outputs.")] = "multiverse-qwen",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    """Say how parallel texts are: table 1 of the paper."""
    with _curator():
        from multiverse_curator.table1 import table_of

        counts = table_of(file, dialect).as_json()
    if as_json:
        typer.echo(json.dumps(counts))
        return
    table = Table(show_header=False)
    for key, value in counts.items():
        shown = json.dumps(value) if isinstance(value, dict) else str(value)
        table.add_row(key.replace("_", " "), shown)
    Console().print(table)


@contextmanager
def _curator() -> Iterator[None]:
    """Errors of the curator become those of the command."""
    try:
        from multiverse_curator.teachers.contract import TeacherError
    except ImportError as error:
        raise InputError(f"{error}; install `multiverse-cli[curate]`") from None
    try:
        yield
    except (TeacherError, ValueError) as error:
        raise InputError(str(error)) from None


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """The store, for this process alone."""
    from multiverse_curator.store import local_store

    with path.with_name(path.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process works on {path}; wait for it") from None
        store = local_store(f"sqlite:///{path}")
        try:
            yield store
        finally:
            store.close()
