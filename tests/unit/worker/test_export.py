"""Our GGUF files compute what transformers computes, and what we can't convert is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiverse_shared.errors import InvalidModel, MultiverseError
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import WEIGHT_TYPES, export_gguf
from tests.unit.worker.client import Client, Seen, text
from tests.unit.worker.llamas import load_llama, logits_of, save_llama

IDS = tuple(int(i) for i in np.random.default_rng(0).integers(0, 96, 40))
# Largest distance from transformers; logits have a spread of about 6. F16 and Q8_0 round.
BOUNDS = {"f32": 1e-4, "f16": 0.05, "q8_0": 1.0}

SHAPES: dict[str, dict[str, Any]] = {
    "grouped heads, tied": {},
    "untied": {"tie_word_embeddings": False},
    "no groups": {"num_key_value_heads": 4},
    "one group": {"num_key_value_heads": 1},
    "wide heads": {"head_dim": 32},
    "other theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "other epsilon": {"rms_norm_eps": 0.1},
}


def distance(model: ModelDirectory, folder: Path, weight_type: str) -> float:
    """Largest difference between our engine's logits and those of transformers."""
    target = folder / "model.gguf"
    export_gguf(model, target, weight_type)
    options = LibraryOptions(target, 256, 4, batch_tokens=64, kv_type="f32", flash_attention=False)
    engine = LlamaCppEngine(options, "test")
    try:
        seen = Seen.by(engine)
        branch = Client(engine).run(text(*IDS)).start.branch
        return seen.difference(branch, logits_of(load_llama(model), IDS))
    finally:
        engine.close()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_f32_logits_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    assert distance(save_llama(tmp_path / "m", **shape), tmp_path, "f32") < BOUNDS["f32"]


@pytest.mark.parametrize("weight_type", ["f16", "q8_0"])
@pytest.mark.parametrize("tied", [True, False])
def test_smaller_types_stay_near(tmp_path: Path, weight_type: str, tied: bool) -> None:
    model = save_llama(tmp_path / "m", tie_word_embeddings=tied)
    assert 0 < distance(model, tmp_path, weight_type) < BOUNDS[weight_type]


def test_a_bfloat16_checkpoint_is_converted(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "m", dtype=torch.bfloat16)
    assert distance(model, tmp_path, "f32") < BOUNDS["f32"]


def test_a_checkpoint_in_shards_is_converted(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "m")
    tensors = load_file(tmp_path / "m/model.safetensors")
    names = sorted(tensors)
    for number, part in enumerate((names[::2], names[1::2])):
        save_file({n: tensors[n] for n in part}, tmp_path / f"m/part-{number}.safetensors")
    whole = load_llama(model)
    (tmp_path / "m/model.safetensors").unlink()
    export_gguf(model, tmp_path / "model.gguf", "f32")
    options = LibraryOptions(tmp_path / "model.gguf", 256, 2, 64, 1, "f32", False)
    library = Library(options)
    count = len(IDS)
    rows = library.compute(list(IDS), list(range(count)), [0] * count, [True] * count)
    library.close()
    assert np.abs(np.stack(rows) - logits_of(whole, IDS)).max() < BOUNDS["f32"]


def test_progress_counts_every_tensor(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    model = save_llama(tmp_path / "m")
    export_gguf(model, tmp_path / "model.gguf", "f32", lambda *call: calls.append(call))
    assert calls == [(done, 20) for done in range(1, 21)]


def test_two_workers_may_convert_one_model_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins and ends while the first one writes."""
    model, target = save_llama(tmp_path / "m"), tmp_path / "model.gguf"
    write = gguf.GGUFWriter.write_kv_data_to_file

    def meanwhile(writer: gguf.GGUFWriter) -> None:
        monkeypatch.setattr(gguf.GGUFWriter, "write_kv_data_to_file", write)
        write(writer)
        export_gguf(model, target, "f32")

    monkeypatch.setattr(gguf.GGUFWriter, "write_kv_data_to_file", meanwhile)
    export_gguf(model, target, "f32")
    Library(LibraryOptions(target)).close()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


# -- refusals ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, ["GPT2LMHeadModel", "LlamaForCausalLM is"]),
        ({"architectures": ...}, ["not supported", "LlamaForCausalLM is"]),
        ({"attention_bias": True}, ["attention_bias", "without it"]),
        ({"mlp_bias": True}, ["mlp_bias", "without it"]),
        ({"hidden_act": "gelu"}, ["gelu", "silu is"]),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}},
            ["RoPE", "without scaling"],
        ),
        (
            {"rope_parameters": ..., "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            ["RoPE", "without scaling"],
        ),
        (
            {"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 2.0}},
            ["RoPE", "without scaling"],
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
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
    message = refused(model, "q4_0")
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


def test_a_width_that_q8_0_cannot_cut_into_blocks_is_refused(tmp_path: Path) -> None:
    model = save_llama(tmp_path, hidden_size=48, head_dim=12)
    with pytest.raises(MultiverseError):
        export_gguf(model, tmp_path / "out.gguf", "q8_0")


def test_a_failed_export_leaves_an_older_file_as_it_was(model: ModelDirectory) -> None:
    target = model.path / "model.gguf"
    target.write_bytes(b"older")
    change_tensors(model, extra=torch.ones(2))
    with pytest.raises(InvalidModel):
        export_gguf(model, target, "f32")
    assert target.read_bytes() == b"older"


def test_a_file_that_is_no_gguf_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    with pytest.raises(InvalidModel, match="multiverse model export"):
        Library(LibraryOptions(tmp_path / "bad.gguf"))
