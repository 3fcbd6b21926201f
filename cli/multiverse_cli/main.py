"""The `multiverse` command."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, track

from multiverse_cli.chat import ask, converse
from multiverse_cli.curate import curate_app
from multiverse_cli.errors import InputError
from multiverse_cli.evaluation import eval_app
from multiverse_cli.generate import generate_all, read_prompts
from multiverse_cli.keys import key_app
from multiverse_cli.layout import draw
from multiverse_cli.model import WeightType, model_app
from multiverse_cli.parse import OutputReader, Statistics, read_outputs
from multiverse_cli.stack import Stack, StackError
from multiverse_cli.train import train_app
from multiverse_client import ApiError, ConnectionFailed, Options
from multiverse_shared.errors import MultiverseError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False
)
app.add_typer(model_app, name="model")
app.add_typer(key_app, name="key")
app.add_typer(train_app, name="train")
app.add_typer(curate_app, name="curate")
app.add_typer(eval_app, name="eval")


class Parallel(StrEnum):
    auto = "auto"
    serial = "serial"
    off = "off"


class Positions(StrEnum):
    trained = "trained"
    sequential = "sequential"


class EngineName(StrEnum):
    llamacpp = "llamacpp"
    sim = "sim"


ModelOption = Annotated[
    Path | None, typer.Option(help="Model directory: serve it for this command only.")
]
UrlOption = Annotated[str, typer.Option(help="A running router.")]
ParallelOption = Annotated[Parallel, typer.Option(help="off: no forks; serial: one path at a time")]
TokensOption = Annotated[int | None, typer.Option(help="Budget of the answer, all paths together.")]
DEFAULT_URL = "http://127.0.0.1:8000"


@app.command()
def serve(
    model: Annotated[Path, typer.Option(help="Model directory in Hugging Face form.")],
    host: Annotated[str, typer.Option(help="Address of the HTTP API.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the HTTP API.")] = 8000,
    grpc_port: Annotated[int, typer.Option(help="Port of the gRPC API.")] = 8001,
    weight_type: Annotated[
        WeightType | None, typer.Option(help="Type that safetensors are converted to: f32.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="GGUF file to serve in place of the directory's weights.")
    ] = None,
    positions: Annotated[
        Positions, typer.Option(help="sequential: without the dialect's offsets.")
    ] = Positions.trained,
    engine: Annotated[
        EngineName, typer.Option(help="sim: made-up answers at a real pace; needs no weights.")
    ] = EngineName.llamacpp,
) -> None:
    """Serve a model: router and worker on this machine. Ctrl-C ends both."""
    settings = {
        "engine": engine.value,
        "weight_type": weight_type and weight_type.value,
        "weights": weights,
    }
    stack = Stack(
        model,
        host,
        port,
        grpc_port,
        log_level="INFO",
        worker_settings={name: str(value) for name, value in settings.items() if value},
        router_settings={"positions": positions.value},
    )
    try:
        with stack:
            name = model.resolve().name
            typer.echo(f"multiverse serves {name} at {stack.url}, gRPC at {stack.grpc_address}")
            stack.wait()
    except KeyboardInterrupt:
        typer.echo("stopped")


@app.command()
def chat(
    prompt: Annotated[str | None, typer.Argument(help="One question; none: a dialogue.")] = None,
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = None,
    parallel: ParallelOption = Parallel.auto,
    max_tokens: TokensOption = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    pace: Annotated[
        float, typer.Option(help="Seconds to hold each token on the screen, to watch it.")
    ] = 0.0,
) -> None:
    """Ask, and watch the answer: plan, all paths growing side by side, conclusion."""
    options = _options(parallel, max_tokens, temperature)
    console = Console()
    with _served(url, model) as served:
        if prompt is None:
            converse(console, served, options, pace)
        else:
            ask(console, served, prompt, options, pace)


@app.command()
def generate(
    prompt: Annotated[str | None, typer.Argument(help="One prompt.")] = None,
    input: Annotated[Path | None, typer.Option(help='JSONL with a "prompt" per line.')] = None,
    output: Annotated[Path | None, typer.Option(help="JSONL to write; stdout if left out.")] = None,
    url: UrlOption = DEFAULT_URL,
    model: ModelOption = None,
    parallel: ParallelOption = Parallel.auto,
    max_tokens: TokensOption = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 8,
) -> None:
    """Answer one prompt or a file of them; the last line is a JSON summary."""
    if (prompt is None) == (input is None):
        raise typer.BadParameter("give a PROMPT or --input, and only one of them")
    prompts = [prompt] if prompt is not None else read_prompts(input or Path())
    options = _options(parallel, max_tokens, temperature)
    out = output.open("w", encoding="utf-8") if output else sys.stdout
    with _served(url, model) as served, Progress(console=Console(stderr=True)) as progress:
        totals = asyncio.run(generate_all(served, prompts, options, concurrency, out, progress))
    typer.echo(json.dumps(totals))
    if totals["failed"]:
        raise typer.Exit(1)


@app.command()
def parse(
    file: Annotated[Path, typer.Argument(help='JSONL (or .gz) with an "output" per line.')],
    dialect: Annotated[str, typer.Option(help="Dialect of the outputs.")] = "multiverse-qwen",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
    roundtrip: Annotated[Path | None, typer.Option(help="Write every output again.")] = None,
    tree: Annotated[int | None, typer.Option(help="Draw the tree of this row, from 1.")] = None,
) -> None:
    """Read recorded outputs back into trees; counts are in characters and tags."""
    reader, statistics, console = OutputReader(dialect), Statistics(), Console()
    rows = read_outputs(file)
    if tree is not None:
        if not 1 <= tree <= len(rows):
            raise typer.BadParameter(f"--tree must be 1 to {len(rows)}")
        console.print(reader.draw(reader.read(rows[tree - 1]["output"])), markup=False)
        return
    with ExitStack() as stack:
        out = stack.enter_context(roundtrip.open("w", encoding="utf-8")) if roundtrip else None
        for row in track(rows, "reading", console=Console(stderr=True)):
            reading = reader.read(row["output"])
            statistics.add(reading)
            if out:
                again = {**row, "output": reader.text(reading)}
                out.write(json.dumps(again, ensure_ascii=False) + "\n")
    if as_json:
        typer.echo(json.dumps(statistics.as_json()))
    else:
        console.print(statistics.as_table())


@app.command()
def layout(
    file: Annotated[
        Path, typer.Argument(help='A tree as JSON, or JSONL (or .gz) with an "output" per line.')
    ],
    png: Annotated[Path | None, typer.Option(help="Write a picture as well.")] = None,
    row: Annotated[int, typer.Option(help="Row of the file to draw, from 1.")] = 1,
    dialect: Annotated[str, typer.Option(help="Dialect of the outputs.")] = "multiverse-qwen",
) -> None:
    """Draw a small tree: which token sees which, and where each stands."""
    draw(Console(), file, row, dialect, png)


def _options(parallel: Parallel, max_tokens: int | None, temperature: float) -> Options:
    return {
        "parallel": parallel.value,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }


@contextmanager
def _served(url: str, model: Path | None) -> Iterator[str]:
    """The URL to ask: the given one, or that of a stack that lives as long as the command."""
    if model is None:
        yield url
        return
    with Stack(model) as stack:
        yield stack.url


def _interrupt(_: int, __: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point: known errors become one line and a status."""
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    try:
        app()
    except (ApiError, InputError, StackError, MultiverseError, OSError) as error:
        nobody = isinstance(error, ConnectionFailed) and not error.started
        hint = "; start one with `multiverse serve`" if nobody else ""
        typer.echo(f"multiverse: {error}{hint}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
