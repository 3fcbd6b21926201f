"""A checked request for one answer, whatever API it came through."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from multiverse_shared.limits import Limits


class Parallel(StrEnum):
    """How the model may fork."""

    AUTO = "auto"  # its paths run at once
    SERIAL = "serial"  # the same tree, one path at a time: the honest baseline
    OFF = "off"  # no suffix in the prompt, and no fork


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What the coordinator needs to know."""

    id: str
    model_digest: str  # of the model that `prompt` was encoded for
    prompt: tuple[int, ...]
    limits: Limits
    parallel: Parallel
    seed: int
    temperature: float
    top_p: float
    top_k: int
    deadline_s: float | None = None
