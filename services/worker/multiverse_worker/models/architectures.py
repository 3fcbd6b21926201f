"""The architectures that can be converted, as tables: tensors and what their configs say.

Names of tensors on the left are those of Hugging Face, on the right those of llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiverse_shared.errors import InvalidModel

_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER = {
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
}
_BIASES = {
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
}
_HEAD_NORMS = {
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
}
_NUMBERS = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "rms_norm_eps",
    "vocab_size",
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What llama.cpp calls it, and what a checkpoint of it holds."""

    name: str
    layer: Mapping[str, str]  # tensors of one layer
    # llama.cpp rotates neighbouring pairs here, where Hugging Face rotates halves: the rows of
    # queries and keys change places.
    pairs: bool
    rope_types: frozenset[str]
    numbers: tuple[str, ...] = _NUMBERS  # keys that its config.json must have
    wide: bool = True  # heads may be wider than their share of hidden_size


ARCHITECTURES = {
    "LlamaForCausalLM": Architecture(
        "llama", _LAYER, True, frozenset({"default", "linear", "yarn", "llama3"})
    ),
    "Qwen2ForCausalLM": Architecture(
        "qwen2",
        _LAYER | _BIASES,
        False,
        frozenset({"default", "linear", "yarn"}),
        (*_NUMBERS, "num_key_value_heads"),
        wide=False,
    ),
    "Qwen3ForCausalLM": Architecture(
        "qwen3",
        _LAYER | _HEAD_NORMS,
        False,
        frozenset({"default", "linear", "yarn"}),
        (*_NUMBERS, "num_key_value_heads", "head_dim"),
    ),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A config.json that was found convertible."""

    architecture: Architecture
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> ModelConfig:
        """InvalidModel says which key can't be converted, and what could."""
        try:
            values = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise InvalidModel(f"config.json is not JSON: {error}", field="model") from None
        if not isinstance(values, dict):
            raise InvalidModel("config.json must hold an object", field="model")
        name = (values.get("architectures") or ["?"])[0]
        if name not in ARCHITECTURES:
            raise InvalidModel(
                f"architecture {name} is not supported; {', '.join(ARCHITECTURES)} are. If "
                "llama.cpp knows it, serve a GGUF of it: see docs/models.md",
                field="model",
            )
        config = cls(ARCHITECTURES[name], values)
        config._check()
        return config

    def _check(self) -> None:
        values = self.values
        missing = [key for key in self.architecture.numbers if key not in values]
        if missing:
            raise InvalidModel(f"config.json has no {', '.join(missing)}", field="model")
        for flag in ("attention_bias", "mlp_bias"):
            if values.get(flag):
                raise InvalidModel(f"config.json has {flag}; models without it are supported")
        if values.get("hidden_act", "silu") != "silu":
            raise InvalidModel(f"activation {values['hidden_act']} is not supported; silu is")
        width = self.heads * self.head_width
        if not self.architecture.wide and width != values["hidden_size"]:
            raise InvalidModel(
                f"{self.heads} heads of {self.head_width} are not hidden_size "
                f"({values['hidden_size']}); llama.cpp knows no such {self.architecture.name}"
            )
        if values.get("quantization_config"):
            raise InvalidModel(
                "config.json has quantization_config; convert the model it was made of"
            )
        kinds = set(values.get("layer_types") or ()) - {"full_attention"}
        if values.get("use_sliding_window") or kinds:
            raise InvalidModel(
                "the model attends within a sliding window, so a join could not see its paths; "
                "models with full attention in every layer are supported"
            )

    @property
    def heads(self) -> int:
        return int(self.values["num_attention_heads"])

    @property
    def kv_heads(self) -> int:
        return int(self.values.get("num_key_value_heads") or self.heads)

    @property
    def head_width(self) -> int:
        return int(self.values.get("head_dim") or self.values["hidden_size"] // self.heads)

    @property
    def tied(self) -> bool:
        """The output matrix is the embedding."""
        return bool(self.values.get("tie_word_embeddings", False))

    @property
    def tensors(self) -> dict[str, str]:
        """All tensors of the model and their new names. A tied one's lm_head is left out."""
        layers = range(self.values["num_hidden_layers"])
        top = {name: new for name, new in _TOP.items() if not (self.tied and "lm_head" in name)}
        return top | {
            f"model.layers.{n}.{name}": f"blk.{n}.{new}"
            for n in layers
            for name, new in self.architecture.layer.items()
        }
