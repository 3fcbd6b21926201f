"""All settings of a router process; each may come from MULTIVERSE_ROUTER_<NAME>."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class RouterSettings(BaseSettings):
    """Frozen; checked at start-up."""

    model_config = SettingsConfigDict(env_prefix="MULTIVERSE_ROUTER_", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="HTTP port")
    worker: str = Field("127.0.0.1:7071", description="host:port of the worker")
    default_max_tokens: int = Field(2048, ge=1, description="budget of a request that names none")
    max_requests: int = Field(256, ge=1, description="requests in flight; more get 429")
    max_body_bytes: int = Field(4 << 20, ge=1024, description="largest request body")
    max_message_mib: int = Field(64, ge=4, description="largest gRPC message")
    stalled_reader_s: float = Field(30.0, gt=0, description="a reader that takes nothing is cut")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe messages that are logged"
    )
