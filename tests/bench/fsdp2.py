"""The job under FSDP2 without GPUs: `torchrun -m tests.bench.fsdp2 --config FILE`.

accelerate shards over accelerators only. Here the CPU of each process passes for one, with gloo
between them; all else is the product's own run, with `fsdp` in its settings. One JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.fsdp import FSDPModule

from multiverse_trainer.recipe.checkpoints import latest
from multiverse_trainer.recipe.run import run
from multiverse_trainer.recipe.settings import load_settings
from multiverse_trainer.recipe.trainer import MultiverseTrainer

shards: list[tuple[int, int]] = []  # elements of this process, and all


def backend(state: Any, *_: Any) -> tuple[str, DistributedType]:
    return "gloo", DistributedType.MULTI_GPU


class Watched(MultiverseTrainer):
    """Notes how much of the weights a process holds."""

    def training_step(self, model: Any, *arguments: Any, **options: Any) -> Any:
        assert isinstance(model, FSDPModule)
        shards.append(
            (
                sum(p.to_local().numel() for p in model.parameters()),
                sum(p.numel() for p in model.parameters()),
            )
        )
        return super().training_step(model, *arguments, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args()
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState._prepare_backend = backend
    from multiverse_trainer.recipe import run as job

    job.MultiverseTrainer = Watched
    settings = load_settings(options.config)
    summary = run(settings, resume=latest(settings.output) is not None)
    if os.environ["RANK"] == "0":
        print(json.dumps({**summary, "shard": shards[0]}))


if __name__ == "__main__":
    main()
