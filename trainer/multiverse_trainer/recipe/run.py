"""A training from its settings to a finished model directory. Saves when it is told to stop."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import TrainingArguments, set_seed

from multiverse_shared.errors import InvalidRequest, MultiverseError
from multiverse_trainer.attention.masks import BLOCK
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.recipe.checkpoints import Checkpoints, Stop, latest, remove_unfinished
from multiverse_trainer.recipe.curve import draw_losses, losses_of
from multiverse_trainer.recipe.preparation import (
    Plan,
    estimate_of,
    load_model,
    make_plan,
    processes,
)
from multiverse_trainer.recipe.settings import TrainSettings
from multiverse_trainer.recipe.trainer import MultiverseTrainer, PlannedRows

SETTINGS = "settings.json"
PLAN = "plan.sha256"
MODEL = "model"


def run(settings: TrainSettings, *, resume: bool = False) -> dict[str, Any]:
    """Trains; returns a summary. `finished` is false after a signal.

    InvalidRequest when there is something to resume and it was not asked for, or the other way
    round; MultiverseError when a checkpoint could not be written.
    """
    start = latest(settings.output)
    if resume and start is None:
        raise InvalidRequest(f"{settings.output} has no complete checkpoint", field="output")
    if start is not None and not resume:
        raise InvalidRequest(
            f"{settings.output} has checkpoints; resume, or name another output", field="output"
        )
    stop = Stop()
    with stop.listening():
        plan = make_plan(settings)
        if start is not None:
            _check_same(plan, settings.output)
        if os.environ.get("RANK", "0") == "0":
            _note(settings, plan)
        set_seed(settings.seed)
        trainer = _trainer(settings, plan, stop)
        if stop.asked:
            return {"finished": False, "steps": 0}
        try:
            result = trainer.train(resume_from_checkpoint=str(start) if start else None)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise _explained(error, settings.output) from error
    if trainer.is_world_process_zero():
        draw_losses({"loss": losses_of(trainer.state.log_history)}, settings.output / "loss.png")
    finished = trainer.state.global_step >= plan.steps
    summary = {
        "finished": finished,
        "steps": trainer.state.global_step,
        "loss": result.training_loss,
        "seconds": round(result.metrics["train_runtime"], 1),
    }
    if finished:
        _finish(trainer, settings, plan)
        summary["model"] = str(settings.output / MODEL)
    return summary


def _check_same(plan: Plan, output: Path) -> None:
    """A checkpoint counts steps of one plan: with another one they would mean other rows."""
    path = output / PLAN
    if path.is_file() and path.read_text("utf-8").strip() != plan.digest:
        raise InvalidRequest(
            f"data, settings or number of processes differ from those that {output} began with; "
            "bring them back, or name another output",
            field="output",
        )


def _note(settings: TrainSettings, plan: Plan) -> None:
    """What to resume with, and the estimate, before anything starts."""
    remove_unfinished(settings.output)
    if latest(settings.output) is None:  # else it is there, and others read it now
        (settings.output / PLAN).write_text(plan.digest + "\n", "utf-8")
    (settings.output / SETTINGS).write_text(settings.model_dump_json(indent=2) + "\n", "utf-8")
    print(json.dumps(overview(settings, plan)), file=sys.stderr, flush=True)


def overview(settings: TrainSettings, plan: Plan) -> dict[str, Any]:
    """What will be trained on, and what it will take."""
    work, needed = estimate_of(settings, plan)
    data = {
        "samples": len(plan.samples),
        "rejects": len(plan.samples.rejects),
        "cut": plan.samples.cut,
        "rows": len(plan.rows),
    }
    return {"data": data, "work": asdict(work), "estimate": needed.as_json()}


def _trainer(settings: TrainSettings, plan: Plan, stop: Stop) -> MultiverseTrainer:
    cuda = torch.cuda.is_available() and not settings.cpu
    if cuda and torch.cuda.device_count() > 1 and processes() == 1:
        raise InvalidRequest(
            "several GPUs need several processes: `torchrun --nproc-per-node N -m "
            "multiverse_trainer`, or show this one a single GPU in CUDA_VISIBLE_DEVICES"
        )
    arguments = _arguments(settings, plan)  # before the model, which is loaded as they say
    # Compiled kernels are made for one shape: on GPUs every row has the same length.
    multiple = -(-settings.max_tokens // BLOCK) * BLOCK if cuda else 8
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(settings.output / "tensorboard")
    return MultiverseTrainer(
        muon_rate=settings.muon_rate if settings.optimiser == "muon" else None,
        model=load_model(settings, plan.vocabulary),
        args=arguments,
        train_dataset=PlannedRows(plan.samples, plan.rows),
        data_collator=Collator(plan.samples.renderer.frame.end[0], multiple),
        callbacks=[Checkpoints(settings.keep), stop],
    )


def _arguments(settings: TrainSettings, plan: Plan) -> TrainingArguments:
    sharding: dict[str, Any] = {}
    if settings.fsdp:
        sharding = {
            "fsdp": True,
            "fsdp_config": {
                "version": 2,
                "activation_checkpointing": settings.checkpointing,
                "cpu_ram_efficient_loading": True,
            },
        }
    return TrainingArguments(
        output_dir=str(settings.output),
        per_device_train_batch_size=settings.rows,
        gradient_accumulation_steps=settings.accumulation,
        num_train_epochs=1,
        max_steps=plan.steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": settings.lowest_rate},
        warmup_steps=round(settings.warm_up * plan.steps),
        weight_decay=settings.weight_decay,
        adam_beta2=settings.beta2,
        max_grad_norm=settings.clip,
        optim="adamw_torch",
        bf16=settings.dtype == "bf16",
        activation_checkpointing=settings.checkpointing and not settings.fsdp,
        activation_checkpointing_kwargs={"use_reentrant": False},
        seed=settings.seed,
        use_cpu=settings.cpu,
        use_cache=True,  # of the finished model; no step of the training does
        save_strategy="steps",
        save_steps=settings.save_steps,
        logging_steps=settings.log_steps,
        logging_first_step=True,
        remove_unused_columns=False,
        dataloader_pin_memory=not settings.cpu,
        report_to=["tensorboard"],
        **sharding,
    )


def _explained(error: Exception, output: Path) -> MultiverseError:
    """A failed write names what is left to go on from; anything else is raised as it is."""
    text = str(error)
    if isinstance(error, RuntimeError) and "write" not in text.lower():
        raise error
    last = latest(output)
    kept = f"{last} is complete: make room and resume" if last else "there is no checkpoint yet"
    return MultiverseError(f"could not write to {output}: {text}; {kept}")


def _finish(trainer: MultiverseTrainer, settings: TrainSettings, plan: Plan) -> None:
    """The finished model, all at once or not at all."""
    target = settings.output / MODEL
    unfinished = settings.output / f".{MODEL}.part"
    state = trainer.accelerator.get_state_dict(trainer.model)
    if not trainer.is_world_process_zero():
        return
    shutil.rmtree(unfinished, ignore_errors=True)
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    if settings.lora_rank:
        model = model.merge_and_unload()
        state = model.state_dict()
    for copy in model.all_tied_weights_keys:  # gathered shards hold them twice
        state.pop(copy, None)
    model.save_pretrained(unfinished, state_dict=state)
    plan.vocabulary.write(unfinished, settings.prompt_suffix)
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
