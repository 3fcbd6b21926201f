"""All settings of a training; each may come from a file or from MULTIVERSE_TRAIN_<NAME>."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from multiverse_shared.errors import InvalidRequest
from multiverse_trainer.batches.curriculum import PUBLISHED_SHARES
from multiverse_trainer.recipe.presets import PRESETS

PREFIX = "MULTIVERSE_TRAIN_"
Share = Annotated[float, Field(ge=0, le=1)]


class TrainSettings(BaseSettings):
    """Frozen; checked before anything is loaded."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    preset: Literal["none", "tiny", "tiny-long", "smollm2-135m", "7b", "32b"] = Field(
        "none", description="defaults for a size of model"
    )
    model: Path = Field(description="model directory in Hugging Face form to start from")
    data: list[Path] = Field(min_length=1, description="files of records (docs/data.md)")
    output: Path = Field(description="folder for checkpoints, logs and the finished model")
    rendering: Literal["parallel", "twin"] = Field(
        "parallel", description="twin: what would be parallel is plain text without tags"
    )
    layout: Literal["served", "no-restart", "no-isolation", "leak"] = Field(
        "served", description="others leave out one thing each: ablations, never to be served"
    )
    dialect: str = Field("multiverse", description="dialect of the records and of the model")
    prompt_suffix: str = Field("", description="ends the prompt of a parallel sample")
    answer_lead: str = Field("\n\n", description="between reasoning and answer; control tokens too")
    tag_rows: Literal["new", "all"] = Field(
        "new", description="tags whose rows are made from their words: those without rows, or all"
    )
    max_tokens: int = Field(4096, ge=8, description="tokens of a row; longer samples are cut")
    pack: bool = Field(True, description="several samples in a row")
    rows: int = Field(1, ge=1, description="rows of a micro-batch on each device")
    accumulation: int = Field(1, ge=1, description="micro-batches of a step")
    shares: list[Share] = Field(
        list(PUBLISHED_SHARES), min_length=1, description="share of parallel samples in each pass"
    )
    order: Literal["shuffled", "file"] = Field(
        "shuffled", description="of the samples in a pass; file: as the data has them"
    )
    max_steps: int | None = Field(None, ge=1, description="end (and end the cosine) here")
    optimiser: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: for the matrices inside the model, AdamW for the rest"
    )
    muon_rate: float = Field(0.02, gt=0, description="peak of the cosine for Muon's matrices")
    learning_rate: float = Field(1e-5, gt=0, description="peak of the cosine")
    warm_up: float = Field(0.05, ge=0, lt=1, description="share of the steps")
    lowest_rate: float = Field(0.0, ge=0, le=1, description="of the peak, at the end")
    weight_decay: float = Field(1e-4, ge=0)
    beta2: float = Field(0.95, gt=0, lt=1, description="of AdamW")
    clip: float = Field(1.0, gt=0, description="norm of the gradient")
    seed: int = Field(0, ge=0)
    dtype: Literal["f32", "bf16"] = Field("f32", description="bf16: F32 weights, BF16 compute")
    checkpointing: bool = Field(False, description="compute activations again: less memory")
    lora_rank: int = Field(0, ge=0, description="0 trains all weights")
    lora_alpha: int = Field(32, ge=1)
    fsdp: bool = Field(False, description="shard weights over the processes of torchrun (FSDP2)")
    cpu: bool = Field(False, description="use no accelerator")
    save_steps: int = Field(100, ge=1, description="steps between checkpoints")
    keep: int = Field(2, ge=1, description="complete checkpoints that stay")
    log_steps: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> TrainSettings:
        if self.optimiser == "muon" and (self.lora_rank or self.fsdp):
            raise ValueError("optimiser muon needs whole matrices: no lora_rank, no fsdp")
        if self.fsdp and self.cpu:
            raise ValueError("fsdp shards over GPUs: not with cpu")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file."""
        return env_settings, init_settings


def load_settings(file: Path | None = None, **given: Any) -> TrainSettings:
    """Preset < file (YAML or JSON) < environment < `given`. InvalidRequest names the field."""
    values = _read(file) if file else {}
    given = {key: value for key, value in given.items() if value is not None}
    environment = {
        name: os.environ[key]
        for name in TrainSettings.model_fields
        if (key := PREFIX + name.upper()) in os.environ and name not in given
    }
    named = {**values, **environment, **given}.get("preset", "none")
    try:
        with _without(given):
            return TrainSettings(**{**PRESETS.get(named, {}), **values, **given})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        if not field:  # settings that do not go together
            raise InvalidRequest(f"training settings: {first['msg']}") from None
        raise InvalidRequest(
            f"training setting {field}: {first['msg']}; set it in the file or as "
            f"{PREFIX}{field.upper()}",
            field=field,
        ) from None


@contextmanager
def _without(given: Iterable[str]) -> Iterator[None]:
    """Hide what the environment says about settings that are given."""
    hidden = {
        key: os.environ.pop(key) for name in given if (key := PREFIX + name.upper()) in os.environ
    }
    try:
        yield
    finally:
        os.environ.update(hidden)


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise InvalidRequest(f"there is no settings file {file}", field="config")
    try:
        values = yaml.safe_load(file.read_text("utf-8"))  # JSON is YAML
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} is not YAML: {error}", field="config") from None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{file} must hold an object", field="config")
    return values
