"""`multiverse train`: a training in this process, and what it would take.

Several devices: `torchrun -m multiverse_trainer --config FILE`.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from multiverse_cli.model import WeightType
from multiverse_cli.train_cluster import add_to
from multiverse_shared.errors import InvalidRequest

train_app = typer.Typer(no_args_is_help=True, help="Train models to fork their answers.")
add_to(train_app)
ConfigOption = Annotated[
    Path | None,
    typer.Option(help="Settings as YAML or JSON; also MULTIVERSE_TRAIN_* (docs/training.md)."),
]
PresetOption = Annotated[
    str | None, typer.Option(help="tiny, smollm2-135m, 7b or 32b: defaults for a size.")
]
ModelOption = Annotated[Path | None, typer.Option(help="Model directory to start from.")]
DataOption = Annotated[list[Path] | None, typer.Option(help="File of records; may be repeated.")]
OutputOption = Annotated[Path | None, typer.Option(help="Folder for checkpoints and model.")]
GgufOption = Annotated[
    WeightType | None, typer.Option(help="Also write the finished model as GGUF.")
]


@train_app.command()
def run(
    config: ConfigOption = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    data: DataOption = None,
    output: OutputOption = None,
    gguf: GgufOption = None,
) -> None:
    """Train, from the beginning; SIGTERM and Ctrl-C save and end."""
    given = {"preset": preset, "model": model, "data": data or None, "output": output}
    _train(config, given, gguf, resume=False)


@train_app.command()
def resume(
    output: Annotated[Path, typer.Argument(help="Folder of a training that was stopped.")],
    gguf: GgufOption = None,
) -> None:
    """Go on from the last complete checkpoint, to the exact step."""
    _need_trainer()
    from multiverse_trainer.recipe.run import SETTINGS

    _train(output / SETTINGS, {"output": output}, gguf, resume=True)


@train_app.command()
def estimate(
    config: ConfigOption = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    data: DataOption = None,
    output: OutputOption = None,
) -> None:
    """Read the data and say what a training would take: memory of a device, time."""
    _need_trainer()
    from multiverse_trainer.recipe.preparation import make_plan
    from multiverse_trainer.recipe.run import overview
    from multiverse_trainer.recipe.settings import load_settings

    given = {"preset": preset, "model": model, "data": data or None, "output": output}
    settings = load_settings(config, **given)
    typer.echo(json.dumps(overview(settings, make_plan(settings))))


def _need_trainer() -> None:
    if find_spec("multiverse_trainer") is None:
        raise InvalidRequest("training is not installed: pip install 'multiverse-cli[train]'")


def _train(
    config: Path | None, given: dict[str, Any], gguf: WeightType | None, *, resume: bool
) -> None:
    _need_trainer()
    from multiverse_trainer.recipe.run import run
    from multiverse_trainer.recipe.settings import load_settings

    settings = load_settings(config, **given)
    summary = run(settings, resume=resume)
    if gguf and summary["finished"]:
        from multiverse_worker.models.directory import ModelDirectory
        from multiverse_worker.models.export import export_gguf

        made = Path(summary["model"])
        target = settings.output / f"{made.name}-{gguf.value}.gguf"
        export_gguf(ModelDirectory(made), target, gguf.value)
        summary["gguf"] = str(target)
    typer.echo(json.dumps(summary))
