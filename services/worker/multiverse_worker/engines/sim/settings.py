"""The settings of the simulator: fields of the worker's settings, by the prefix `sim_`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_settings import NoDecode

from multiverse_worker.engines.sim.shapes import Range


def _range(value: object) -> object:
    """`4` and `2-8` as (least, most)."""
    if not isinstance(value, str | int):
        return value
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", str(value))
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if most < least:
        raise ValueError("must be a number or a range such as 2-8")
    return least, most


_WRITTEN = {"type": ["string", "integer"], "pattern": r"^\d+(-\d+)?$"}
Amount = Annotated[Range, NoDecode, BeforeValidator(_range), WithJsonSchema(_WRITTEN)]


class SimSettings(BaseModel):
    """Only the engine `sim` reads them."""

    sim_machine: str = Field(
        "qwen32b-fp16-4x3090", description="step times of this machine in the simulator's table"
    )
    sim_speed: float = Field(
        1.0, ge=0, description="so many times as fast as that machine; 0: without waiting"
    )
    sim_prefill_tokens_per_s: float = Field(
        2000.0, gt=0, description="assumed where the table has no measured rate"
    )
    sim_context_ms: float = Field(
        0.0, ge=0, description="milliseconds that 1,000 tokens of context add to a step; assumed"
    )
    sim_context_length: int = Field(32768, ge=16, description="longest context, in tokens")
    sim_answers: Literal["tree", "recorded", "plain"] = Field(
        "tree", description="random trees, shapes of recorded outputs, or answers without forks"
    )
    sim_paths: Amount = Field((2, 4), description="paths of a block; a range, as all below")
    sim_depth: int = Field(1, ge=0, description="blocks inside blocks")
    sim_blocks: Amount = Field((1, 1), description="blocks one after another")
    sim_text_tokens: Amount = Field((4, 16), description="tokens before a block and after the last")
    sim_outline_tokens: Amount = Field((2, 8), description="tokens of an outline")
    sim_path_tokens: Amount = Field((16, 64), description="tokens of a path")
    sim_conclusion_tokens: Amount = Field((8, 32), description="tokens of a conclusion")
    sim_faults: str = Field("", description="what goes wrong, and when; see docs/simulator.md")
    sim_control: Path | None = Field(None, description="file of faults that is read as it changes")
