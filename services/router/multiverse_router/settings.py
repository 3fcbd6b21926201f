"""All settings of a router process; each may come from MULTIVERSE_ROUTER_<NAME>."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Positions(StrEnum):
    """Where paths and conclusions stand, in a dialect with offsets."""

    TRAINED = "trained"  # with the dialect's offsets: needs an engine with free positions
    SEQUENTIAL = "sequential"  # without them


class RouterSettings(BaseSettings):
    """Frozen; checked at start-up."""

    model_config = SettingsConfigDict(env_prefix="MULTIVERSE_ROUTER_", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="HTTP port")
    worker: str = Field("127.0.0.1:7071", description="host:port of the worker")
    positions: Positions = Field(
        Positions.TRAINED, description="`sequential` leaves out a dialect's position offsets"
    )
    default_max_tokens: int = Field(2048, ge=1, description="budget of a request that names none")
    most_paths: int = Field(64, ge=1, description="largest max_paths a request may ask for")
    most_live_paths: int = Field(128, ge=1, description="largest max_live_paths")
    most_depth: int = Field(16, ge=0, description="largest max_depth")
    most_blocks: int = Field(1024, ge=0, description="largest max_blocks")
    max_requests: int = Field(256, ge=1, description="requests in flight; more get 429")
    max_body_bytes: int = Field(4 << 20, ge=1024, description="largest request body")
    max_message_mib: int = Field(64, ge=4, description="largest gRPC message")
    stalled_reader_s: float = Field(30.0, gt=0, description="a reader that takes nothing is cut")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least severe messages that are logged"
    )
