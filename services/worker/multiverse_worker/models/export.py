"""Hugging Face Llama checkpoints as GGUF files for llama.cpp.

The file carries no vocabulary: token ids stay with the tokenizer of the model directory.
Query and key rows are reordered per head, because llama.cpp rotates neighbouring pairs where
Hugging Face rotates halves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import gguf
import numpy as np
from numpy.typing import NDArray

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.checkpoint import Checkpoint
from multiverse_worker.models.directory import ModelDirectory

Array = NDArray[Any]
Progress = Callable[[int, int], None]  # tensors done, tensors in all

_TYPES = {
    "f32": (gguf.LlamaFileType.ALL_F32, gguf.GGMLQuantizationType.F32),
    "f16": (gguf.LlamaFileType.MOSTLY_F16, gguf.GGMLQuantizationType.F16),
    "q8_0": (gguf.LlamaFileType.MOSTLY_Q8_0, gguf.GGMLQuantizationType.Q8_0),
}
_BLOCK = 32  # of Q8_0
WEIGHT_TYPES = tuple(_TYPES)

_NUMBERS = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "rms_norm_eps",
    "vocab_size",
)
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


def export_gguf(
    model: ModelDirectory, target: Path, weight_type: str, progress: Progress | None = None
) -> None:
    """Write `model` to `target`, all at once or not at all.

    InvalidModel for what the converter does not know; it never guesses.
    """
    if weight_type not in _TYPES:
        raise InvalidModel(
            f"unknown weight type {weight_type!r}; choose one of {', '.join(_TYPES)}", field="type"
        )
    config = _config(model)
    file_type, kind = _TYPES[weight_type]
    tensors = list(_tensors(model, config))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Others may be converting the same model.
    unfinished = target.with_name(f".{target.name}.{os.getpid()}-{uuid4().hex[:8]}.part")
    writer = gguf.GGUFWriter(unfinished, "llama")
    _write_config(writer, config, file_type)
    for done, (name, read) in enumerate(tensors, 1):
        _add(writer, name, read(), kind)
        if progress:
            progress(done, len(tensors))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.replace(target)


def _config(model: ModelDirectory) -> dict[str, Any]:
    try:
        config = json.loads((model.path / "config.json").read_text("utf-8"))
    except ValueError as error:
        raise InvalidModel(f"config.json is not JSON: {error}", field="model") from None
    _check(config)
    return dict(config)


def _check(config: dict[str, Any]) -> None:
    architecture = (config.get("architectures") or ["?"])[0]
    if architecture != "LlamaForCausalLM":
        raise InvalidModel(
            f"architecture {architecture} is not supported; LlamaForCausalLM is", field="model"
        )
    for flag in ("attention_bias", "mlp_bias"):
        if config.get(flag):
            raise InvalidModel(f"config.json has {flag}; models without it are supported")
    missing = [key for key in _NUMBERS if key not in config]
    if missing:
        raise InvalidModel(f"config.json has no {', '.join(missing)}", field="model")
    rope = _rope(config)
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise InvalidModel("config.json scales RoPE; models without scaling are supported")
    if config.get("hidden_act", "silu") != "silu":
        raise InvalidModel(f"activation {config['hidden_act']} is not supported; silu is")


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {"rope_theta": config.get("rope_theta", 10000.0), **parameters}


def _write_config(
    writer: gguf.GGUFWriter, config: dict[str, Any], file_type: gguf.LlamaFileType
) -> None:
    heads = config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_rope_dimension_count(width)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_freq_base(_rope(config)["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    writer.add_file_type(file_type)


def _tensors(
    model: ModelDirectory, config: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Array]]]:
    """GGUF name and reader of each tensor; tensors are read one by one."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    tied = config.get("tie_word_embeddings", False)
    missing = _names(config) - ({"lm_head.weight"} if tied else set())
    for path in model.weights:
        checkpoint = Checkpoint.open(path)
        for name in checkpoint.names:
            if name == "lm_head.weight" and tied:
                continue
            target = _target(name)
            missing.discard(name)
            rotated = {"attn_q": heads, "attn_k": kv_heads}.get(target.split(".")[-2])
            yield target, _reader(checkpoint, name, rotated)
    if missing:
        raise InvalidModel(f"the checkpoint has no {', '.join(sorted(missing))}", field="model")


def _names(config: dict[str, Any]) -> set[str]:
    """All tensors of a Llama."""
    layers = range(config["num_hidden_layers"])
    return {*_TOP, *(f"model.layers.{n}.{name}" for n in layers for name in _LAYER)}


def _target(name: str) -> str:
    """The name llama.cpp gives a tensor."""
    if name in _TOP:
        return _TOP[name]
    if name.startswith("model.layers."):
        number, _, rest = name.removeprefix("model.layers.").partition(".")
        if rest in _LAYER:
            return f"blk.{number}.{_LAYER[rest]}"
    raise InvalidModel(f"the checkpoint has a tensor {name!r} that a Llama does not have")


def _reader(checkpoint: Checkpoint, name: str, heads: int | None) -> Callable[[], Array]:
    def read() -> Array:
        values = checkpoint.read(name)
        return _interleave(values, heads) if heads else values

    return read


def _interleave(rows: Array, heads: int) -> Array:
    """Rows [heads x (2 x half), in]: from halves to neighbouring pairs."""
    half = rows.shape[0] // heads // 2
    paired = rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2)
    return np.ascontiguousarray(paired.reshape(rows.shape))


def _add(
    writer: gguf.GGUFWriter, name: str, values: Array, kind: gguf.GGMLQuantizationType
) -> None:
    """Matrices in the wanted type, vectors (norms) always in F32."""
    if values.ndim < 2 or kind is gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, values)
    elif kind is gguf.GGMLQuantizationType.F16:
        writer.add_tensor(name, values.astype(np.float16))
    elif values.shape[-1] % _BLOCK:
        raise InvalidModel(
            f"{name} has rows of {values.shape[-1]}; q8_0 needs multiples of {_BLOCK}"
        )
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
