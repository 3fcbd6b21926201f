"""The settings of the prefix-cache tier: fields of the worker's settings, by the prefix `tier_`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

_SCHEMES = ("redis://", "rediss://", "unix://", "mooncake://")


class TierSettings(BaseModel):
    """Without `tier_url` there is no tier."""

    tier_url: str = Field(
        "", description="redis://HOST:PORT/DB, or mooncake://HOST:PORT of a master; empty: none"
    )
    tier_cap_mib: int = Field(
        1024,
        ge=4,
        description="memory for blocks: of all workers in Redis, of each one in Mooncake",
    )
    tier_ttl_s: float = Field(
        3600.0, ge=1, description="seconds that a block lives after it was last read"
    )
    tier_timeout_s: float = Field(
        0.5, gt=0, description="what comes later is computed; also of a block on its way out"
    )
    tier_in_flight_mib: int = Field(
        64, ge=1, description="blocks on their way out, and as much on the way in"
    )
    tier_zstd_level: int = Field(0, ge=0, le=19, description="0: blocks are not compressed")
    tier_secret: SecretStr = Field(
        SecretStr(""), description="shared by all workers: nobody else can make a block"
    )
    tier_fetch: Literal["measured", "always"] = Field(
        "measured", description="fetch when that takes less time than computing, or always"
    )
    tier_prefixes: Literal["never", "reused", "always"] = Field(
        "reused", description="which prompts are put into the tier: those met again, or all"
    )

    @field_validator("tier_url")
    @classmethod
    def _is_known(cls, url: str) -> str:
        if url and not url.startswith(_SCHEMES):
            raise ValueError(f"must begin with one of {', '.join(_SCHEMES)}")
        return url

    @field_validator("tier_secret")
    @classmethod
    def _fits(cls, secret: SecretStr) -> SecretStr:
        if len(secret.get_secret_value().encode()) > 64:
            raise ValueError("must be at most 64 bytes")
        return secret
