"""`multiverse model`: commands on model directories."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from multiverse_cli.model_report import ModelReport
from multiverse_shared.dialect import load_dialect

model_app = typer.Typer(no_args_is_help=True, help="Work on model directories.")
DirectoryArgument = Annotated[Path, typer.Argument(help="Model directory in Hugging Face form.")]


class WeightType(StrEnum):
    f32 = "f32"
    f16 = "f16"
    q8_0 = "q8_0"
    q4_0 = "q4_0"


@model_app.command()
def check(
    directory: DirectoryArgument,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    """Say whether a model can be served with its dialect; status 1 when it can't."""
    report = ModelReport.of(directory)
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        Console().print(report.as_table())
    if not report.passed:
        raise typer.Exit(1)


@model_app.command("add-tags")
def add_tags(
    directory: DirectoryArgument,
    out: Annotated[Path, typer.Option(help="Directory to write; must not exist.")],
    dialect: Annotated[str, typer.Option(help="Whose tags to add.")] = "multiverse",
) -> None:
    """Copy a model with its dialect's tags as special tokens; rows from the words they stand for.

    The rows are a start for training: the model does not know yet what the tags mean.
    """
    from multiverse_worker.models.add_tags import add_tags as add

    done = add(directory, out, load_dialect(dialect))
    summary = {"out": str(out), "dialect": dialect, "vocab_size": done.vocab_size}
    typer.echo(json.dumps({**summary, "new": done.new, "kept": done.kept}))


@model_app.command()
def export(
    directory: DirectoryArgument,
    out: Annotated[Path, typer.Option(help="GGUF file to write.")],
    type: Annotated[WeightType, typer.Option(help="Type of the weights.")] = WeightType.f32,
) -> None:
    """Write a Hugging Face Llama, Qwen2 or Qwen3 as GGUF for llama.cpp."""
    from multiverse_worker.models.directory import ModelDirectory
    from multiverse_worker.models.export import export_gguf

    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("tensors", total=None)
        export_gguf(
            ModelDirectory(directory),
            out,
            type.value,
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
    typer.echo(json.dumps({"out": str(out), "bytes": out.stat().st_size, "type": type.value}))
