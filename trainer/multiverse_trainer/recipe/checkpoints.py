"""Checkpoints that are complete or do not count, and a clean end on signals.

A checkpoint is complete when it has the file COMPLETE, written last. What a killed process or a
full disk left half done is removed at the next start.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

MARK = "COMPLETE"


def checkpoints(folder: Path) -> list[Path]:
    """Folders of checkpoints, oldest first, complete or not."""
    found = folder.glob("checkpoint-*")
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint."""
    return next((c for c in reversed(checkpoints(folder)) if (c / MARK).is_file()), None)


def remove_unfinished(folder: Path) -> None:
    for checkpoint in checkpoints(folder):
        if not (checkpoint / MARK).is_file():
            shutil.rmtree(checkpoint)


class Checkpoints(TrainerCallback):  # type: ignore[misc]
    """Marks what was saved as complete, then removes what is older than the last `keep`."""

    def __init__(self, keep: int) -> None:
        self._keep = keep

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # every process has written its part
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        (folder / f"checkpoint-{state.global_step}" / MARK).touch()
        complete = [c for c in checkpoints(folder) if (c / MARK).is_file()]
        for old in complete[: -self._keep]:
            shutil.rmtree(old)


class Stop(TrainerCallback):  # type: ignore[misc]
    """SIGTERM or Ctrl-C ends the training behind the step that is running, with a checkpoint."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if torch.distributed.is_initialized():  # all stop behind the same step
            asked = torch.tensor(int(self.asked), device=args.device)
            torch.distributed.all_reduce(asked, torch.distributed.ReduceOp.MAX)
            self.asked = bool(asked.item())
        if self.asked:
            control.should_save = control.should_training_stop = True
