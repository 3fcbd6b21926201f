"""All settings of a curator process; each may come from MULTIVERSE_CURATOR_<NAME>."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from multiverse_shared.secret_files import secrets_folder


class CuratorSettings(BaseSettings):
    """Frozen; checked at start-up. API and workers take the same ones."""

    model_config = SettingsConfigDict(
        env_prefix="MULTIVERSE_CURATOR_",
        secrets_dir=secrets_folder(),
        frozen=True,
        hide_input_in_errors=True,
    )

    database: SecretStr = Field(
        SecretStr("sqlite:///curator.db"),
        description="URL of the database: sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
    )
    redis: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379/0"), description="URL of Redis; the API needs none"
    )
    teachers_file: Path | None = Field(
        None, description="TOML with a table for each teacher; only `rules` if left out"
    )
    input_folder: Path | None = Field(
        None, description="folder of files that may be submitted by path; none: uploads only"
    )
    dataset_folder: Path = Field(
        Path("datasets"), description="folder of exported datasets; all API replicas share it"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="HTTP port")
    keys: SecretStr = Field(
        SecretStr(""), description="lines of API keys, with commas between; see `keys_file`"
    )
    keys_file: Path | None = Field(
        None, description="file with a line for each API key; read again when it changes"
    )
    max_body_bytes: int = Field(256 << 20, ge=1024, description="largest upload")
    body_timeout_s: float = Field(300.0, gt=0, description="a body not there by then gets 408")
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of a worker's /metrics, none if left out; the API has it on its own",
    )
    queue: str = Field("multiverse-curator", description="name of the Celery queue")
    threads: int = Field(32, ge=1, description="stages that a worker works on at once")
    lease_s: float = Field(
        60.0, gt=0, description="a sample not heard of for so long is handed out again"
    )
    tick_s: float = Field(
        1.0, gt=0, description="how often workers look for samples, and for jobs that ended"
    )
    stage_limit_s: float = Field(
        3600.0, gt=0, description="most time for one stage of one sample, with all its pauses"
    )
    visibility_timeout_s: float = Field(
        7200.0, gt=0, description="Redis gives a message out again after that; above the limit"
    )
    independence_model: Path | None = Field(
        None, description="causal LM directory that measures independence; none: not measured"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe messages that are logged"
    )

    @model_validator(mode="after")
    def _times(self) -> Self:
        if self.visibility_timeout_s <= self.stage_limit_s:
            raise ValueError(
                "visibility_timeout_s must be above stage_limit_s: "
                "else Redis gives out what is still being worked on"
            )
        if self.lease_s < 3 * self.tick_s:
            raise ValueError("lease_s must be at least three times tick_s: claims are renewed so")
        return self
