"""All settings of a worker process; each may come from MULTIVERSE_WORKER_<NAME>."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from multiverse_shared.logs import LogFormat
from multiverse_shared.secret_files import secrets_folder
from multiverse_shared.tls import TlsFiles
from multiverse_worker.engines.sim.settings import SimSettings
from multiverse_worker.tier.settings import TierSettings


def _half_of_the_cpus() -> int:
    return max(1, (os.cpu_count() or 2) // 2)


class WorkerSettings(SimSettings, TierSettings, BaseSettings):
    """Frozen; checked at start-up."""

    model_config = SettingsConfigDict(
        env_prefix="MULTIVERSE_WORKER_", secrets_dir=secrets_folder(), frozen=True
    )

    model: Path = Field(description="model directory in Hugging Face form")
    engine: Literal["llamacpp", "sglang", "sim"] = Field(
        "llamacpp", description="what computes; sim simulates and needs no weights"
    )
    weights: Path | None = Field(
        None, description="GGUF file to serve in place of the weights in the model directory"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(7071, ge=0, le=65535, description="gRPC port; 0 picks a free one")
    tls_cert_file: Path | None = Field(
        None, description="certificate shown to routers (PEM); with it connections are TLS"
    )
    tls_key_file: Path | None = Field(None, description="key of that certificate (PEM)")
    tls_ca_file: Path | None = Field(
        None, description="authorities that sign the certificates of routers (PEM)"
    )
    registry: SecretStr = Field(
        SecretStr(""),
        description="Redis in which routers find this worker; none: not told",
    )
    advertise: str = Field(
        "", description="host:port told there; address and port of this worker if left out"
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="HTTP port of /metrics, /health and /ready on the same address; 0: none",
    )
    shutdown_grace_s: float = Field(
        20.0, ge=0, description="requests may end for so long after SIGTERM; then they are ended"
    )
    weight_type: Literal["f32", "f16", "q8_0", "q4_0"] = Field(
        "f32", description="type that safetensors are converted to; a GGUF keeps its own"
    )
    kv_type: Literal["f32", "f16"] = Field("f16", description="type of the KV cells")
    flash_attention: bool = Field(True, description="faster with F16 cells; exact only without")
    kv_cells: int = Field(16384, ge=256, description="tokens that the KV pool holds")
    idle_cells: int | None = Field(
        None,
        ge=0,
        description="cells that ended contexts keep for later ones (llamacpp); a quarter of the "
        "pool if left out, and of small models less: each step reads past them",
    )
    sequences: int = Field(128, ge=2, le=4096, description="contexts resident at once")
    batch_tokens: int = Field(512, ge=16, le=8192, description="tokens computed per step")
    threads: int = Field(
        default_factory=_half_of_the_cpus,
        ge=1,
        description="threads of the engine; half the CPUs if left out",
    )
    tensor_parallel: int = Field(
        1, ge=1, description="GPUs that share the model (sglang); 1 with a tier"
    )
    sglang_arguments: dict[str, Any] = Field(
        default_factory=dict, description="further SGLang server arguments by name, as JSON"
    )
    max_branches: int = Field(1024, ge=1, description="branches queued or running at once")
    max_message_mib: int = Field(64, ge=4, description="largest gRPC message")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe messages that are logged"
    )
    log_format: LogFormat = Field("text", description="`json`: one object a line")
    otlp_endpoint: str = Field(
        "", description="where traces go (OTLP over HTTP, `http://collector:4318`); none: no traces"
    )

    @property
    def tls(self) -> TlsFiles | None:
        """None: routers connect in the clear."""
        return TlsFiles.of(
            tls_cert_file=self.tls_cert_file,
            tls_key_file=self.tls_key_file,
            tls_ca_file=self.tls_ca_file,
        )

    @model_validator(mode="after")
    def _whole_tls(self) -> Self:
        _ = self.tls
        return self

    @model_validator(mode="after")
    def _within_the_engine(self) -> Self:
        if self.tier_url and self.engine == "sim":
            raise ValueError("tier_url needs engine llamacpp or sglang: sim has no KV")
        if self.tier_url and self.tensor_parallel > 1:
            raise ValueError(
                "tier_url needs tensor_parallel 1, for each GPU holds a part of the KV: "
                "leave one of them out"
            )
        most = 255 if self.tier_url else 256
        if self.engine == "llamacpp" and self.sequences > most:
            raise ValueError(f"sequences must be at most {most} with engine llamacpp")
        return self

    @model_validator(mode="after")
    def _found(self) -> Self:
        anywhere = self.host in ("0.0.0.0", "::")
        if self.registry.get_secret_value() and anywhere and not self.advertise:
            raise ValueError(f"advertise is needed: routers can't reach a worker at {self.host}")
        return self
