"""All settings of a router process; each may come from MULTIVERSE_ROUTER_<NAME>."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from multiverse_router.placement.choice import Roots, Siblings
from multiverse_shared.limits import Limits
from multiverse_shared.logs import LogFormat
from multiverse_shared.secret_files import secrets_folder
from multiverse_shared.tls import TlsFiles

MIN_KEY_CHARACTERS = 32


class Positions(StrEnum):
    """Where paths and conclusions stand, in a dialect with offsets."""

    TRAINED = "trained"  # with the dialect's offsets: needs an engine with free positions
    SEQUENTIAL = "sequential"  # without them


class DiscoveryKind(StrEnum):
    """Where workers are looked for."""

    STATIC = "static"  # the list in the settings
    REDIS = "redis"  # the registry that workers write
    KUBERNETES = "kubernetes"  # EndpointSlices of a service


class Tags(StrEnum):
    """Structure in the text of an answer."""

    KEEP = "keep"
    STRIP = "strip"


class RouterSettings(BaseSettings):
    """Frozen; checked at start-up."""

    model_config = SettingsConfigDict(
        env_prefix="MULTIVERSE_ROUTER_",
        secrets_dir=secrets_folder(),
        frozen=True,
        hide_input_in_errors=True,
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="HTTP port")
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="gRPC port; 0 picks a free one, none: no gRPC"
    )
    discovery: DiscoveryKind = Field(
        DiscoveryKind.STATIC, description="where workers are looked for: static, redis, kubernetes"
    )
    workers: str = Field(
        "127.0.0.1:7071",
        description="host:port of each worker, with commas between; read by `static`",
    )
    kubernetes_service: str = Field(
        "", description="NAMESPACE/NAME of the services whose endpoints are workers, with commas"
    )
    kubernetes_port: str = Field("grpc", description="name of their port")
    redis_url: SecretStr = Field(
        SecretStr(""),
        description="Redis of the registry and of limits that hold over several routers; "
        "none: no registry, limits of this router alone",
    )
    placement: Roots = Field(
        Roots.AUTO, description="where a request starts; see docs/placement.md"
    )
    siblings: Siblings = Field(
        Siblings.AUTO,
        description="where and when the paths of a fork run: all at home, spread, or `auto`",
    )
    token_ms: float | None = Field(
        None,
        gt=0,
        description="milliseconds a token, in the mean, that answers aim at; none: no paths wait",
    )
    prefill_tokens_per_s: float = Field(
        2000.0, gt=0, description="that a worker is assumed to load; `auto` weighs moves by it"
    )
    prefix_index: int = Field(
        65_536, ge=0, description="places of prefixes on workers that are remembered"
    )
    reroute_s: float = Field(
        10.0, ge=0, description="what has lost its worker waits so long for another one"
    )
    silence_s: float = Field(
        60.0,
        gt=0,
        description="work moves on from a worker that computes nothing for so long",
    )
    worker_tls_cert_file: Path | None = Field(
        None, description="certificate shown to workers (PEM); with it connections are TLS"
    )
    worker_tls_key_file: Path | None = Field(None, description="key of that certificate (PEM)")
    worker_tls_ca_file: Path | None = Field(
        None, description="authorities that sign the certificates of workers (PEM)"
    )
    worker_tls_name: str = Field(
        "", description="name that a worker's certificate must have; its address if left out"
    )
    positions: Positions = Field(
        Positions.TRAINED, description="`sequential` leaves out a dialect's position offsets"
    )
    default_max_tokens: int = Field(2048, ge=1, description="budget of a request that names none")
    tags: Tags = Field(Tags.KEEP, description="structure in texts, of requests that do not say")
    most_choices: int = Field(128, ge=1, description="largest n, times the prompts of a request")
    most_paths: int = Field(64, ge=1, description="largest max_paths a request may ask for")
    most_live_paths: int = Field(128, ge=1, description="largest max_live_paths")
    most_depth: int = Field(16, ge=0, description="largest max_depth")
    most_blocks: int = Field(1024, ge=0, description="largest max_blocks")
    keys: SecretStr = Field(
        SecretStr(""), description="lines of API keys, with commas between; see `keys_file`"
    )
    keys_file: Path | None = Field(
        None, description="file with a line for each API key; read again when it changes"
    )
    max_requests: int = Field(256, ge=1, description="requests in flight; more wait, or get 429")
    max_queued: int = Field(256, ge=0, description="requests that wait for a place; more get 429")
    queue_s: float = Field(2.0, ge=0, description="a request waits so long for a place, then 429")
    most_prompt_tokens: int | None = Field(
        None, ge=1, description="largest prompt; what the model's context holds if left out"
    )
    max_body_bytes: int = Field(4 << 20, ge=1024, description="largest request body")
    max_message_mib: int = Field(64, ge=4, description="largest gRPC message")
    header_timeout_s: float = Field(
        10.0, gt=0, description="a connection without a whole request head is closed"
    )
    idle_connection_s: int = Field(
        75,
        ge=1,
        description="a connection without a request is closed; longer than a proxy keeps it (60 s)",
    )
    body_timeout_s: float = Field(30.0, gt=0, description="a body not there by then gets 408")
    keepalive_s: float = Field(
        10.0, ge=0.1, description="a ping on the worker's connection after so long a silence"
    )
    stalled_reader_s: float = Field(30.0, gt=0, description="a reader that takes nothing is cut")
    heartbeat_s: float = Field(
        15.0, gt=0, description="a comment line in a stream that said nothing for so long"
    )
    shutdown_grace_s: float = Field(
        20.0, ge=0, description="answers may end for so long after SIGTERM; then they are ended"
    )
    metrics_port: int | None = Field(
        None, ge=1, le=65535, description="own port of /metrics; the HTTP port if left out"
    )
    access_log: bool = Field(False, description="a JSON line on stdout for each request")
    log_prompts: bool = Field(False, description="request bodies in the access log")
    cors_origins: str = Field(
        "", description="origins whose pages may call, with commas between; `*` is all; none"
    )
    context_key: SecretStr = Field(
        SecretStr(""),
        description="keys that sign contexts, with commas between: the first one signs, all are "
        "known; random if left out",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe messages that are logged"
    )
    log_format: LogFormat = Field(
        "text", description="`json`: one object a line, with the request id"
    )
    otlp_endpoint: str = Field(
        "", description="where traces go (OTLP over HTTP, `http://collector:4318`); none: no traces"
    )
    trace_share: float = Field(
        1.0, ge=0, le=1, description="share of requests without `traceparent` that are traced"
    )

    @property
    def largest_limits(self) -> Limits:
        """The shape of the largest answer that may be asked for."""
        return Limits(
            max_paths=self.most_paths, max_depth=self.most_depth, max_blocks=self.most_blocks
        )

    @property
    def worker_tls(self) -> TlsFiles | None:
        """None: workers are reached in the clear."""
        return TlsFiles.of(
            worker_tls_cert_file=self.worker_tls_cert_file,
            worker_tls_key_file=self.worker_tls_key_file,
            worker_tls_ca_file=self.worker_tls_ca_file,
        )

    @model_validator(mode="after")
    def _whole_tls(self) -> Self:
        _ = self.worker_tls
        return self

    @property
    def worker_addresses(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.workers.split(",") if part.strip())

    @field_validator("workers")
    @classmethod
    def _addresses(cls, workers: str) -> str:
        for part in filter(None, (part.strip() for part in workers.split(","))):
            host, _, port = part.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(f"{part!r} is no host:port")
        return workers

    @field_validator("context_key")
    @classmethod
    def _long_enough(cls, keys: SecretStr) -> SecretStr:
        given = keys.get_secret_value()
        if given and any(len(key.strip()) < MIN_KEY_CHARACTERS for key in given.split(",")):
            raise ValueError(f"each key needs at least {MIN_KEY_CHARACTERS} characters")
        return keys
