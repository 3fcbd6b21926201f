"""Rotary positions beyond the plain kind, as llama.cpp is told about them.

Supported is what was compared with transformers: linear, yarn, and llama3 (as a tensor of
factors by which the frequencies are divided).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.architectures import ModelConfig

_NEEDED = {
    "default": (),
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}
_ANY = {"rope_type", "type", "rope_theta", "original_max_position_embeddings"}
# What llama.cpp does whatever the file says: a config may say the same.
_FIXED = {
    "default": {"partial_rotary_factor": 1.0},
    "linear": {"partial_rotary_factor": 1.0},
    "yarn": {"partial_rotary_factor": 1.0, "beta_fast": 32, "beta_slow": 1, "truncate": True},
    "llama3": {"partial_rotary_factor": 1.0},
}


@dataclass(frozen=True, slots=True)
class Rope:
    """How positions become rotations; built from a config, refused when it can't be told."""

    kind: str
    theta: float
    width: int  # of a head: rotated as a whole
    values: dict[str, Any]
    original_context: int

    @classmethod
    def of(cls, config: ModelConfig) -> Rope:
        """InvalidModel names the kind or the key that llama.cpp would not follow."""
        top = config.values
        values = dict(top.get("rope_parameters") or top.get("rope_scaling") or {})
        kind = values.get("rope_type", values.get("type", "default"))
        if kind not in config.architecture.rope_types:
            known = ", ".join(sorted(config.architecture.rope_types))
            raise InvalidModel(
                f"config.json scales RoPE by {kind!r}; for {config.architecture.name} "
                f"{known} are supported. If the model was made without scaling and this only "
                "stretches it, remove rope_scaling to serve its original context",
                field="model",
            )
        if "partial_rotary_factor" in top:
            values.setdefault("partial_rotary_factor", top["partial_rotary_factor"])
        for key, value in values.items():
            fixed = _FIXED[kind].get(key)
            if value in (None, fixed) or key in _ANY or key in _NEEDED[kind]:
                continue
            raise InvalidModel(
                f"config.json: {key} {value} of a {kind} RoPE is not supported"
                + (f"; {fixed} is" if fixed is not None else ""),
                field="model",
            )
        missing = [key for key in _NEEDED[kind] if values.get(key) is None]
        if missing:
            raise InvalidModel(f"config.json: a {kind} RoPE needs {', '.join(missing)}")
        return cls(
            kind,
            float(values.get("rope_theta") or top.get("rope_theta") or 10000.0),
            config.head_width,
            values,
            int(
                top.get("original_max_position_embeddings")
                or values.get("original_max_position_embeddings")
                or top["max_position_embeddings"]
            ),
        )

    def describe(self, writer: gguf.GGUFWriter) -> None:
        """Write what llama.cpp reads as metadata."""
        writer.add_rope_dimension_count(self.width)
        writer.add_rope_freq_base(self.theta)
        if self.kind not in ("linear", "yarn"):
            return
        writer.add_rope_scaling_type(gguf.RopeScalingType(self.kind))
        writer.add_rope_scaling_factor(float(self.values["factor"]))
        if self.kind == "yarn":
            writer.add_rope_scaling_orig_ctx_len(self.original_context)

    @property
    def frequency_factors(self) -> NDArray[np.float32] | None:
        """[width / 2] by which frequencies are divided (llama3): long waves are stretched by
        `factor`, short ones kept, those between blended."""
        if self.kind != "llama3":
            return None
        factor, low, high = (
            float(self.values[key]) for key in ("factor", "low_freq_factor", "high_freq_factor")
        )
        frequencies = self.theta ** -(np.arange(0, self.width, 2) / self.width)
        turns = self.original_context * frequencies / (2 * math.pi)  # within the old context
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
        factors: NDArray[np.float32] = (1 / ((1 - kept) / factor + kept)).astype(np.float32)
        return factors
