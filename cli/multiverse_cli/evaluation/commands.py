"""The commands: any set of questions at any server, and recorded outputs."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from multiverse_cli.evaluation.served import api_key, bar, evaluation, reader_of, told_of
from multiverse_cli.evaluation.sets import questions_of
from multiverse_cli.evaluation.tables import compare, figures, table2
from multiverse_cli.stack import Stack

eval_app = typer.Typer(no_args_is_help=True, help="Evaluate models.")
eval_app.command()(table2)
eval_app.command()(figures)
eval_app.command()(compare)


class Parallel(StrEnum):
    auto = "auto"
    serial = "serial"
    off = "off"


@eval_app.command()
def run(
    questions: Annotated[
        str, typer.Argument(help="aime24, aime25, math500, gpqa, generated, or a JSONL file.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Local file of the benchmark; left out: from the hub.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model directory: serve it for this command only.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server (key: MULTIVERSE_API_KEY).")
    ] = None,
    served_model: Annotated[
        str | None, typer.Option(help="Name of the model at the server.")
    ] = None,
    plain: Annotated[
        bool, typer.Option(help="The server is not Multiverse's: send OpenAI's fields only.")
    ] = False,
    parallel: Annotated[
        list[Parallel] | None, typer.Option(help="Ways to ask, to be compared with the first.")
    ] = None,
    prompting: Annotated[
        bool, typer.Option(help="Ask each way also in words: does the model fork then?")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Answers per question.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of one answer.")] = 2048,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many questions.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="generated: how many.")] = 500,
    task_seed: Annotated[int | None, typer.Option(help="generated: which.")] = None,
    family: Annotated[list[str] | None, typer.Option(help="generated: only these.")] = None,
    not_family: Annotated[
        list[str] | None, typer.Option(help="generated: not these (a model has seen them).")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help="generated: full, long (twice the work in each path), or wide (more such paths)."
        ),
    ] = None,
    dialect: Annotated[
        str, typer.Option(help="Dialect of the answers; a model directory's own comes first.")
    ] = "multiverse",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one answer.")] = 600.0,
    out: Annotated[Path, typer.Option(help="Folder: answers (to go on from) and report.")] = Path(
        "build/eval/run"
    ),
) -> None:
    """Ask questions and judge the answers; a run that was stopped goes on where it was."""
    if (model is None) == (url is None):
        raise typer.BadParameter("give --model or --url, and only one of them")
    if plain and parallel:
        raise typer.BadParameter("--plain servers know no --parallel")
    with evaluation(), ExitStack() as exits:
        from multiverse_trainer.evaluation.asking import Arm
        from multiverse_trainer.evaluation.endpoint import OpenAiEndpoint, Way
        from multiverse_trainer.evaluation.prompting import prompting_ways
        from multiverse_trainer.evaluation.running import Run
        from multiverse_trainer.evaluation.shape import ShapeReader

        reader = reader_of(model) if model else ShapeReader(dialect)
        chosen = (task_seed, family or [], not_family or [], level)
        asked = questions_of(questions, data, tasks, *chosen)
        ways = [Way("plain", None, max_tokens, temperature, top_p)]
        if not plain:
            ways = [
                Way(name.value, {"parallel": name.value}, max_tokens, temperature, top_p)
                for name in parallel or [Parallel.auto]
            ]
        if prompting:
            ways = [more for way in ways for more in prompting_ways(way, reader.dialect)]
        at = url or exits.enter_context(Stack(model or Path())).url
        served = {
            "set": questions,
            "model": told_of(model) if model else None,
            "url": url,
            "served_model": served_model,
        }

        async def ask() -> dict[str, Any]:
            async with OpenAiEndpoint(at, served_model, api_key(), timeout_s=timeout) as endpoint:
                arms = [Arm(endpoint, way) for way in ways]
                run = Run(questions, asked[:limit], arms, reader, seeds, concurrency)
                with bar(run.total, questions) as advance:
                    return await run.into(out, served, advance)

        result = asyncio.run(ask())
    typer.echo(json.dumps(result))
    if result["failed"]:
        raise typer.Exit(1)


@eval_app.command()
def grade(
    outputs: Annotated[
        Path, typer.Argument(help='JSONL (or .gz): rows with "id", "prompt" and "output".')
    ],
    references: Annotated[
        list[Path], typer.Option(help='Files of rows with "problem" and "answer".')
    ],
) -> None:
    """Grade recorded outputs against the answers of benchmarks; one JSON line."""
    with evaluation():
        from multiverse_trainer.evaluation.benchmarks import read_rows
        from multiverse_trainer.evaluation.regrading import regrade

        rows = [row for file in references for row in read_rows(file)]
        typer.echo(json.dumps(regrade(read_rows(outputs), rows)))
