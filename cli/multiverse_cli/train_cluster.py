"""`multiverse train submit | follow | cancel`: trainings in a Kubernetes cluster."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from multiverse_shared.errors import InvalidRequest, MultiverseError

if TYPE_CHECKING:
    from multiverse_cli.cluster import Trainings

NameArgument = Annotated[str, typer.Argument(help="Name of the Job.")]
ContextOption = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
NamespaceOption = Annotated[str | None, typer.Option(help="Namespace; the context's if left out.")]


def add_to(train_app: typer.Typer) -> None:
    """The three commands."""
    for command in (submit, follow, cancel):
        train_app.command()(command)


def submit(
    name: NameArgument,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", help="SETTING=VALUE, as MULTIVERSE_TRAIN_SETTING; may be repeated."),
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="CronJob of the chart, where there are several.")
    ] = None,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Make a Job of the chart's template (`trainer.enabled`)."""
    _trainings(context, namespace).submit(name, _settings(given or []), template)
    typer.echo(f"{name} is submitted; `multiverse train follow {name}` shows its log")


def follow(
    name: NameArgument, context: ContextOption = None, namespace: NamespaceOption = None
) -> None:
    """Show the log of a Job until it ends; the status is 1 when it failed."""
    trainings = _trainings(context, namespace)
    for line in trainings.follow(name):
        typer.echo(line)
    state = trainings.state(name)
    if state.word == "failed":
        raise MultiverseError(f"{name} failed: {state.reason}")


def cancel(
    name: NameArgument, context: ContextOption = None, namespace: NamespaceOption = None
) -> None:
    """End a Job; it saves first, and goes on from there when it is submitted again."""
    _trainings(context, namespace).cancel(name)
    typer.echo(f"{name} is cancelled")


def _settings(given: list[str]) -> dict[str, str]:
    """Names and values; InvalidRequest for what is none, or no setting of a training."""
    if find_spec("multiverse_trainer") is None:
        raise InvalidRequest("training is not installed: pip install 'multiverse-cli[train]'")
    from multiverse_trainer.recipe.settings import TrainSettings

    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name.lower() not in TrainSettings.model_fields:
            raise InvalidRequest(
                f"{one!r} is no SETTING=VALUE of a training; docs/training.md has them",
                field="set",
            )
        found[name.lower()] = value
    return found


def _trainings(context: str | None, namespace: str | None) -> Trainings:
    if find_spec("kubernetes") is None:
        raise InvalidRequest("clusters need an extra: pip install 'multiverse-cli[cluster]'")
    from multiverse_cli.cluster import Trainings

    return Trainings.of(context, namespace)
