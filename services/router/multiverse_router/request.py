"""A checked request for one answer, whatever API it came through."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from multiverse_router.visit import current_tenant
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Context


class Parallel(StrEnum):
    """How the model may fork."""

    AUTO = "auto"  # its paths run at once
    SERIAL = "serial"  # the same tree, one path at a time: the honest baseline
    OFF = "off"  # no suffix in the prompt, and no fork


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How every branch of the answer draws; the worker's `sampling` has the formulas."""

    seed: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: bool = False
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """What the coordinator needs to know."""

    id: str
    model: str  # its name
    model_digest: str  # of the model that `prompt` was encoded for
    prompt: Context  # in normal form; ends with a text
    limits: Limits
    parallel: Parallel
    sampling: SamplingOptions
    stop: tuple[str, ...] = ()  # strings that end the answer, in text of the root
    deadline_s: float | None = None
    token_ms: float | None = None  # that a token may take, in the mean; None: what its key has
    priority: int | None = None  # None: that of its key
    return_context: bool = False  # the answer's tree, signed, with the finish event
    operation: str = "chat"  # or text_completion, as OpenTelemetry calls it
    tenant: str = field(default_factory=current_tenant)  # who asks: the name of its key
