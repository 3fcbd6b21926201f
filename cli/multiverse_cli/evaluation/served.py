"""Models that are served for the length of an evaluation, and what is known of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from multiverse_cli.errors import InputError
from multiverse_cli.stack import Stack
from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_shared.model_card import ModelCard
from multiverse_shared.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from multiverse_trainer.evaluation.bound import StepTimes
    from multiverse_trainer.evaluation.shape import ShapeReader

LOAD_TIMEOUT_S = 10.0
API_KEY = "MULTIVERSE_API_KEY"


@contextmanager
def evaluation() -> Iterator[None]:
    """Errors of an evaluation become those of the command."""
    for package in ("multiverse_trainer", "math_verify"):
        if find_spec(package) is None:
            raise InputError(f"{package} is not installed; install `multiverse-cli[eval]`")
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from None


def card_of(model: Path) -> ModelCard:
    """InputError when the directory has none."""
    try:
        return ModelCard.parse((model / "multiverse.json").read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"model directory {model} has no multiverse.json; run `multiverse model check {model}`"
        ) from None


def told_of(model: Path) -> dict[str, str]:
    """Names a model in a report, and by the state of its files: weights that change are another
    model, whose answers are not mixed with those of the old ones."""
    card_of(model)
    state = hashlib.sha256()
    for file in sorted(path for path in model.iterdir() if path.is_file()):
        stat = file.stat()
        state.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return {"directory": str(model.resolve()), "state": state.hexdigest()[:16]}


def reader_of(model: Path) -> ShapeReader:
    """Counts in the model's own tokens."""
    from multiverse_trainer.evaluation.shape import ShapeReader

    return ShapeReader(card_of(model).dialect.name, TextTokenizer.from_directory(model))


class Stacks:
    """Each model served once for each way of serving it, as long as `exits` is open."""

    def __init__(self, exits: ExitStack) -> None:
        self._exits = exits
        self._stacks: dict[tuple[Path, str], Stack] = {}

    def of(self, model: Path, positions: str = "trained") -> Stack:
        key = (model.resolve(), positions)
        if key not in self._stacks:
            stack = Stack(model, router_settings={"positions": positions})
            self._stacks[key] = self._exits.enter_context(stack)
        return self._stacks[key]


def step_times(stack: Stack) -> StepTimes:
    """step(k) as the worker has measured it by now."""
    from multiverse_trainer.evaluation.bound import StepTimes

    with grpc.insecure_channel(f"127.0.0.1:{stack.worker_port}") as channel:
        reports = EngineServiceStub(channel).WatchLoad(
            pb.WatchLoadRequest(), timeout=LOAD_TIMEOUT_S
        )
        points = dict(next(iter(reports)).step_ms)
        reports.cancel()
    return StepTimes(points)


@contextmanager
def bar(total: int, name: str) -> Iterator[_Bar]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        yield _Bar(progress, total, name)


class _Bar:
    """Advances by one when called."""

    def __init__(self, progress: Progress, total: int, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total)

    def __call__(self) -> None:
        self._progress.advance(self._task)


def api_key() -> str | None:
    return os.environ.get(API_KEY)
