"""What we can't convert is refused with the remedy, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from multiverse_worker.models.quantisation import WEIGHT_TYPES
from tests.unit.worker.llamas import save_llama


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def model(saved: ModelDirectory, tmp_path: Path) -> ModelDirectory:
    """A copy that a test may break."""
    for path in saved.path.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return ModelDirectory(tmp_path)


def change_config(model: ModelDirectory, **changes: Any) -> None:
    path = model.path / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def refused(model: ModelDirectory, weight_type: str = "f32") -> str:
    """The sentence of the refusal; nothing may be left behind."""
    target = model.path / "out" / "model.gguf"
    with pytest.raises(InvalidModel) as refusal:
        export_gguf(model, target, weight_type)
    assert not target.parent.exists() or not list(target.parent.iterdir())
    return refusal.value.message


def rope(kind: str, **values: object) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **values}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, ["GPT2LMHeadModel", "LlamaForCausalLM", "GGUF"]),
        ({"architectures": ...}, ["not supported", "LlamaForCausalLM", "Qwen3ForCausalLM"]),
        ({"attention_bias": True}, ["attention_bias", "without it"]),
        ({"mlp_bias": True}, ["mlp_bias", "without it"]),
        ({"hidden_act": "gelu"}, ["gelu", "silu is"]),
        ({"quantization_config": {"bits": 4}}, ["quantization_config", "made of"]),
        ({"use_sliding_window": True}, ["sliding window", "full attention"]),
        ({"layer_types": ["full_attention", "sliding_attention"]}, ["sliding window"]),
        (rope("dynamic", factor=2.0), ["'dynamic'", "linear", "yarn", "remove"]),
        ({"rope_parameters": ..., "rope_scaling": {"type": "longrope"}}, ["'longrope'", "yarn"]),
        (rope("linear"), ["needs factor"]),
        (rope("yarn", factor=2.0, beta_slow=0.5), ["beta_slow 0.5", "1 is"]),
        (rope("yarn", factor=2.0, truncate=False), ["truncate False", "True is"]),
        (rope("yarn", factor=2.0, attention_factor=3.0), ["attention_factor 3.0"]),
        (rope("llama3", factor=2.0), ["low_freq_factor", "high_freq_factor"]),
        (rope("default", partial_rotary_factor=0.5), ["partial_rotary_factor", "1.0 is"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor", "1.0 is"]),
    ],
    ids=str,
)
def test_a_config_we_cannot_convert_is_refused(
    model: ModelDirectory, changes: dict[str, Any], words: list[str]
) -> None:
    change_config(model, **changes)
    message = refused(model)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "rms_norm_eps"])
def test_a_config_that_lacks_a_number_is_refused_by_its_name(
    model: ModelDirectory, key: str
) -> None:
    change_config(model, **{key: ...})
    assert key in refused(model)


def test_a_config_that_is_not_json_is_refused(model: ModelDirectory) -> None:
    (model.path / "config.json").write_text("{")
    assert "config.json" in refused(model)


def test_an_unknown_weight_type_is_refused_with_the_known_ones(model: ModelDirectory) -> None:
    message = refused(model, "q2_k")
    assert all(known in message for known in WEIGHT_TYPES)


def change_tensors(model: ModelDirectory, **changes: torch.Tensor | None) -> None:
    path = model.path / "model.safetensors"
    tensors = {**load_file(path), **changes}
    save_file({name: value for name, value in tensors.items() if value is not None}, path)


def test_a_tensor_that_a_llama_does_not_have_is_refused_by_name(model: ModelDirectory) -> None:
    change_tensors(model, **{"model.layers.0.self_attn.q_norm.weight": torch.ones(16)})
    assert "model.layers.0.self_attn.q_norm.weight" in refused(model)


def test_a_checkpoint_without_one_of_its_tensors_is_refused_by_name(model: ModelDirectory) -> None:
    change_tensors(model, **{"model.layers.1.mlp.up_proj.weight": None})
    assert "model.layers.1.mlp.up_proj.weight" in refused(model)


def test_an_untied_checkpoint_without_a_head_is_not_taken_for_a_tied_one(
    model: ModelDirectory,
) -> None:
    change_config(model, tie_word_embeddings=False)
    assert "lm_head.weight" in refused(model)


@pytest.mark.parametrize("data", [b"", b"x", b"nothing at all", b"\xff" * 64], ids=len)
def test_weights_that_are_no_safetensors_file_are_refused_by_name(
    model: ModelDirectory, data: bytes
) -> None:
    (model.path / "model.safetensors").write_bytes(data)
    assert "model.safetensors" in refused(model)


def test_weights_that_are_cut_short_are_refused_by_name(model: ModelDirectory) -> None:
    path = model.path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert "model.safetensors" in refused(model)


def test_weights_of_a_type_we_cannot_read_are_refused_by_name(model: ModelDirectory) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    change_tensors(model, **{name: torch.ones(96, 64, dtype=torch.int8)})
    assert name in refused(model)


@pytest.mark.parametrize(
    ("architecture", "changes", "words"),
    [
        ("qwen2", {"num_key_value_heads": ...}, ["num_key_value_heads"]),
        ("qwen3", {"head_dim": ...}, ["head_dim"]),
        ("qwen3", {"attention_bias": True}, ["attention_bias"]),
        ("qwen2", {"head_dim": 32}, ["4 heads of 32", "hidden_size (64)"]),
        ("qwen2", rope("llama3", factor=2.0), ["'llama3'", "for qwen2"]),
    ],
    ids=str,
)
def test_a_qwen_config_we_cannot_convert_is_refused(
    tmp_path: Path, architecture: str, changes: dict[str, Any], words: list[str]
) -> None:
    model = save_llama(tmp_path, architecture=architecture)
    change_config(model, **changes)
    message = refused(model)
    assert all(word in message for word in words), message


def test_a_tensor_that_two_files_have_is_refused_by_name(model: ModelDirectory) -> None:
    (model.path / "other.safetensors").write_bytes((model.path / "model.safetensors").read_bytes())
    message = refused(model)
    assert "other.safetensors" in message
    assert "which another file has too" in message


def test_nothing_is_left_of_a_conversion_that_fails_midway(
    model: ModelDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", full)
    with pytest.raises(OSError, match="no space"):
        export_gguf(model, model.path / "out" / "model.gguf", "f32")
    assert list((model.path / "out").iterdir()) == []


def test_a_failed_export_leaves_an_older_file_as_it_was(model: ModelDirectory) -> None:
    target = model.path / "model.gguf"
    target.write_bytes(b"older")
    change_tensors(model, extra=torch.ones(2))
    with pytest.raises(InvalidModel):
        export_gguf(model, target, "f32")
    assert target.read_bytes() == b"older"
