"""Everything that a training needs, loaded and checked: samples, plan, model, estimate."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_trainer.attention.ablation import Layout
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.batches.curriculum import Pick, draw_passes
from multiverse_trainer.batches.packing import Row, pack
from multiverse_trainer.data.files import read_records
from multiverse_trainer.data.rendering import Renderer, Rendering
from multiverse_trainer.data.samples import SampleSet
from multiverse_trainer.recipe.estimate import Estimate, Work, estimate, matmul_speed
from multiverse_trainer.recipe.settings import TrainSettings
from multiverse_trainer.recipe.vocabulary import TrainingVocabulary

_LORA_MODULES = "all-linear"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read when: rows of all passes, in order."""

    vocabulary: TrainingVocabulary
    samples: SampleSet
    rows: list[Row]
    steps: int

    @property
    def tokens(self) -> int:
        lengths = self.samples.lengths
        return sum(lengths[pick.sample][pick.parallel] for row in self.rows for pick in row)

    @property
    def digest(self) -> str:
        """SHA-256 of what is read in which step; only with the same one can a training go on."""
        state = hashlib.sha256(
            f"{self.steps} {self.samples.lengths} {self.samples.layout}".encode()
        )
        for record in self.samples.records:
            state.update(record.model_dump_json().encode())
        for row in self.rows:
            state.update(str([(pick.sample, pick.parallel) for pick in row]).encode())
        return state.hexdigest()


def processes() -> int:
    """Of torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def make_plan(settings: TrainSettings) -> Plan:
    """Reads the data; writes rejects.jsonl to the output folder."""
    vocabulary = TrainingVocabulary.load(settings.model, settings.dialect)
    renderer = Renderer(
        vocabulary.grammar, vocabulary.frame(settings.prompt_suffix, settings.answer_lead)
    )
    rendering, layout = Rendering(settings.rendering), Layout(settings.layout)
    samples = SampleSet(renderer, rendering, settings.max_tokens, layout)
    settings.output.mkdir(parents=True, exist_ok=True)
    try:
        samples.read(read_records(settings.data, settings.output / "data"))
    finally:
        if os.environ.get("RANK", "0") == "0":
            samples.write_rejects(settings.output / "rejects.jsonl")

    def length_of(pick: Pick) -> int:
        return samples.lengths[pick.sample][pick.parallel]

    shuffled = settings.order == "shuffled"
    passes = draw_passes(settings.seed, settings.shares, len(samples), shuffled=shuffled)
    rows = pack(passes, length_of, settings.max_tokens, several=settings.pack)
    at_once = settings.rows * settings.accumulation * processes()
    steps = -(-len(rows) // at_once)
    if settings.max_steps:
        steps = min(steps, settings.max_steps)
        rows = rows[: steps * at_once]
    return Plan(vocabulary, samples, rows, steps)


def load_model(settings: TrainSettings, vocabulary: TrainingVocabulary) -> nn.Module:
    """F32 weights with the rows of the tags made; with LoRA its matrices beside them."""
    register()
    model = AutoModelForCausalLM.from_pretrained(
        settings.model, dtype=torch.float32, attn_implementation=NAME
    )
    vocabulary.initialise(model, settings.tag_rows)
    if not settings.lora_rank:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise InvalidRequest(
            "lora_rank needs peft: pip install 'multiverse-trainer[lora]'", field="lora_rank"
        ) from None
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        target_modules=_LORA_MODULES,
        trainable_token_indices=sorted(vocabulary.tokens.ids.values()),
        task_type="CAUSAL_LM",
    )
    if settings.checkpointing:
        model.enable_input_require_grads()
    return get_peft_model(model, config)


def estimate_of(settings: TrainSettings, plan: Plan) -> tuple[Work, Estimate]:
    """From the configuration of the model; loads no weights."""
    try:
        config = AutoConfig.from_pretrained(settings.model)
        with torch.device("meta"):
            shape = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        raise InvalidModel(f"{settings.model} cannot be read: {error}", field="model") from None
    parameters = sum(p.numel() for p in shape.parameters())
    matrices = [m for m in shape.modules() if isinstance(m, nn.Linear)]
    lora = sum(settings.lora_rank * (m.in_features + m.out_features) for m in matrices)
    size: Any = config.get_text_config()
    cuda = torch.cuda.is_available() and not settings.cpu
    low = settings.dtype == "bf16"
    work = Work(
        parameters=parameters,
        trained=lora or parameters,
        layers=size.num_hidden_layers,
        hidden=size.hidden_size,
        vocabulary=max(size.vocab_size, max(plan.vocabulary.tokens.ids.values()) + 1),
        tokens=plan.tokens,
        steps=plan.steps,
        row_tokens=settings.rows * settings.max_tokens,
        processes=processes(),
        sharded=settings.fsdp,
        checkpointing=settings.checkpointing,
        compute_bytes=2 if low else 4,
    )
    speed = matmul_speed(
        torch.device("cuda" if cuda else "cpu"), torch.bfloat16 if low and cuda else torch.float32
    )
    return work, estimate(work, speed)
