"""The commands that serve models themselves: table 2, the figures, and any comparison."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiverse_cli.evaluation.served import Stacks, bar, evaluation, reader_of, step_times, told_of
from multiverse_cli.evaluation.sets import questions_of

if TYPE_CHECKING:
    from multiverse_trainer.evaluation.bound import StepTimes

ModelOption = Annotated[Path, typer.Option(help="Model directory.")]
TwinOption = Annotated[
    Path, typer.Option(help="Directory of its twin, trained on the same tasks in sequence.")
]
TasksOption = Annotated[int, typer.Option(min=1, help="Generated tasks.")]
SeedOption = Annotated[int | None, typer.Option(help="Which tasks.")]
FamilyOption = Annotated[list[str] | None, typer.Option(help="Only these task families.")]
NotFamilyOption = Annotated[
    list[str] | None, typer.Option(help="Not these task families (the models have seen them).")
]
LevelOption = Annotated[
    str | None,
    typer.Option(
        help="How much work a task is: full, long (twice in each path), or wide (more such paths)."
    ),
]
ConcurrencyOption = Annotated[int, typer.Option(min=1, help="Requests at once.")]
MAX_TOKENS = 1500  # no generated task needs as many


def table2(
    model: ModelOption,
    twin: TwinOption,
    tasks: TasksOption = 5000,
    plain: Annotated[
        int, typer.Option(min=1, help="Tasks asked without the suffix, too: the first ones.")
    ] = 2000,
    timed: Annotated[int, typer.Option(min=1, help="Tasks timed one at a time.")] = 200,
    task_seed: SeedOption = None,
    family: FamilyOption = None,
    not_family: NotFamilyOption = None,
    level: LevelOption = None,
    concurrency: ConcurrencyOption = 4,
    out: Annotated[Path, typer.Option(help="Folder: answers and report.")] = Path(
        "build/eval/table2"
    ),
) -> None:
    """A model that forks beside its sequential twin: right answers, parallelism, wall clock."""
    with evaluation(), ExitStack() as exits:
        served = {"model": told_of(model), "twin": told_of(twin)}
        stacks = Stacks(exits)
        ours, base = stacks.of(model), stacks.of(twin)
        from multiverse_trainer.evaluation.drawing import draw_arms
        from multiverse_trainer.evaluation.endpoint import OpenAiEndpoint
        from multiverse_trainer.evaluation.question import digest
        from multiverse_trainer.evaluation.report import write_report
        from multiverse_trainer.evaluation.store import Store
        from multiverse_trainer.evaluation.table2 import Table2, answers_wanted

        chosen = (task_seed, family or [], not_family or [], level)
        asked = questions_of("generated", None, tasks, *chosen)
        settings = {**served, "questions": digest(asked)}

        async def measure() -> dict[str, Any]:
            async with OpenAiEndpoint(ours.url) as one, OpenAiEndpoint(base.url) as other:
                table = Table2(other, one, reader_of(model), MAX_TOKENS, plain)
                with (
                    Store(out / "answers.jsonl", settings) as answers,
                    Store(out / "times.jsonl", settings) as times,
                    bar(answers_wanted(len(asked), timed, plain), "table 2") as advance,
                ):
                    return await table.run(asked, timed, answers, times, concurrency, advance)

        result = asyncio.run(measure())
        picture = out / "report.png"
        draw_arms(picture, result["arms"])
        write_report(out, "Table 2", {**served, **result}, [picture])
    typer.echo(json.dumps(result))


def figures(
    model: ModelOption,
    twin: TwinOption,
    tasks: TasksOption = 200,
    budgets: Annotated[list[int] | None, typer.Option(help="Figure 7: critical tokens.")] = None,
    timed: Annotated[int, typer.Option(min=1, help="Figure 8a: tasks, one at a time.")] = 120,
    batches: Annotated[list[int] | None, typer.Option(help="Figure 8b: requests at once.")] = None,
    batch_tasks: Annotated[int, typer.Option(min=1, help="Figure 8b: tasks of a point.")] = 64,
    task_seed: SeedOption = None,
    level: LevelOption = None,
    concurrency: ConcurrencyOption = 4,
    out: Annotated[Path, typer.Option(help="Folder: answers, JSON and PNG.")] = Path(
        "build/eval/figures"
    ),
) -> None:
    """Budget control (7), time per token by parallelism (8a), speed-up by batch (8b)."""
    budgets = budgets or [60, 80, 100, 120, 160, 200, 300, 400, 600]
    batches = batches or [1, 2, 4, 8, 16, 32]
    with evaluation(), ExitStack() as exits:
        served = {"model": told_of(model), "twin": told_of(twin)}
        stacks = Stacks(exits)
        ours, base = stacks.of(model), stacks.of(twin)
        from multiverse_trainer.evaluation.drawing import (
            draw_budgets,
            draw_latency,
            draw_speed_up,
        )
        from multiverse_trainer.evaluation.endpoint import OpenAiEndpoint
        from multiverse_trainer.evaluation.figures import Measuring
        from multiverse_trainer.evaluation.question import digest
        from multiverse_trainer.evaluation.report import write_report
        from multiverse_trainer.evaluation.store import Store

        asked = questions_of("generated", None, tasks, task_seed, [], [], level)
        some, few = asked[:timed], asked[:batch_tasks]
        settings = {**served, "questions": digest(asked)}
        total = 2 * (len(asked) * len(budgets) + len(some) + len(few) * len(batches))

        def steps() -> StepTimes:
            return step_times(ours)

        async def measure() -> dict[str, Any]:
            async with OpenAiEndpoint(ours.url) as one, OpenAiEndpoint(base.url) as other:
                measuring = Measuring(one, other, reader_of(model), MAX_TOKENS)
                with bar(total, "figures") as advance:
                    with Store(out / "figure8a.jsonl", settings) as store:
                        latency = await measuring.latency(some, store, steps, advance)
                    with Store(out / "figure7.jsonl", settings) as store:
                        budget = await measuring.budgets(
                            asked, budgets, store, concurrency, advance
                        )
                    speed = await measuring.speed_up(few, batches, steps, advance)
            return {"figure7": budget, "figure8a": latency, "figure8b": speed}

        result = asyncio.run(measure())
        pictures = [out / f"{name}.png" for name in result]
        for picture, draw in zip(
            pictures, (draw_budgets, draw_latency, draw_speed_up), strict=True
        ):
            draw(picture, result[picture.stem])
        write_report(out, "Figures 7, 8a and 8b", {**served, **result}, pictures)
    typer.echo(json.dumps(result))


def compare(
    arm: Annotated[
        list[str],
        typer.Option(
            help="NAME=DIRECTORY[,parallel=auto|serial|off][,positions=trained|sequential]; "
            "differences are to the first."
        ),
    ],
    tasks: TasksOption = 1000,
    task_seed: SeedOption = None,
    family: FamilyOption = None,
    not_family: NotFamilyOption = None,
    level: LevelOption = None,
    concurrency: ConcurrencyOption = 4,
    out: Annotated[Path, typer.Option(help="Folder: answers and report.")] = Path(
        "build/eval/compare"
    ),
) -> None:
    """Several models or ways on the same generated tasks: ablations, unseen families."""
    with evaluation(), ExitStack() as exits:
        from multiverse_cli.evaluation.arms import parse_arms
        from multiverse_trainer.evaluation.running import Run

        chosen = (task_seed, family or [], not_family or [], level)
        asked = questions_of("generated", None, tasks, *chosen)
        specs = parse_arms(arm)
        served = [{**asdict(spec), "model": told_of(spec.model)} for spec in specs]
        stacks = Stacks(exits)
        urls = [stacks.of(spec.model, spec.positions).url for spec in specs]

        async def ask() -> dict[str, Any]:
            async with AsyncExitStack() as endpoints:
                arms = [
                    await spec.arm(url, MAX_TOKENS, endpoints)
                    for spec, url in zip(specs, urls, strict=True)
                ]
                run = Run("Comparison", asked, arms, reader_of(specs[0].model), 1, concurrency)
                with bar(run.total, "answers") as advance:
                    return await run.into(out, {"served": served}, advance)

        result = asyncio.run(ask())
    typer.echo(json.dumps(result))
