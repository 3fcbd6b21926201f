"""Our GGUF files compute what transformers computes."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions
from multiverse_worker.models import export
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from tests.unit.worker.client import Client, Seen, text
from tests.unit.worker.llamas import load_llama, logits_of, save_llama

IDS = tuple(int(i) for i in np.random.default_rng(0).integers(0, 96, 40))
# Largest distance from transformers; logits have a spread of about 6. Other types round.
BOUNDS = {"f32": 1e-4, "f16": 0.05, "q8_0": 1.0, "q4_0": 12.0}
ARCHITECTURES = ["llama", "qwen2", "qwen3"]

SHAPES: dict[str, dict[str, Any]] = {
    "grouped heads, tied": {},
    "untied": {"tie_word_embeddings": False},
    "no groups": {"num_key_value_heads": 4},
    "one group": {"num_key_value_heads": 1},
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_f32_logits_are_those_of_transformers(
    tmp_path: Path, architecture: str, shape: dict[str, Any]
) -> None:
    model = save_llama(tmp_path / "m", architecture=architecture, **shape)
    assert distance(model, tmp_path, "f32") < BOUNDS["f32"]


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_heads_may_be_wider_than_their_share(tmp_path: Path, architecture: str) -> None:
    model = save_llama(tmp_path / "m", architecture=architecture, head_dim=32)
    assert distance(model, tmp_path, "f32") < BOUNDS["f32"]


def scaled(kind: str, **values: float) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 1e4, **values}


# Contexts so short that 40 tokens reach far behind them.
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
ROPES: dict[str, dict[str, Any]] = {
    "linear": scaled("linear", factor=4.0),
    "yarn": scaled("yarn", factor=4.0, original_max_position_embeddings=16),
    "yarn, defaults spelled out": scaled(
        "yarn", factor=2.0, original_max_position_embeddings=64, beta_fast=32, beta_slow=1
    ),
    "llama3": scaled("llama3", factor=8.0, **LLAMA3),
}
TAKEN = [(a, r) for a in ARCHITECTURES for r in ROPES if a == "llama" or r != "llama3"]


@pytest.mark.parametrize(("architecture", "rope"), TAKEN)
def test_scaled_rope_is_that_of_transformers(tmp_path: Path, architecture: str, rope: str) -> None:
    model = save_llama(tmp_path / "m", architecture=architecture, rope_parameters=ROPES[rope])
    assert distance(model, tmp_path, "f32") < BOUNDS["f32"]


def test_scaling_in_the_older_spelling_is_that_of_transformers(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "m", rope_parameters=ROPES["yarn"])
    path = model.path / "config.json"
    config = json.loads(path.read_text())
    del config["rope_parameters"]
    config |= {
        "rope_theta": 1e4,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    }
    path.write_text(json.dumps(config))
    assert distance(model, tmp_path, "f32") < BOUNDS["f32"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("weight_type", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("tied", [True, False])
def test_smaller_types_stay_near(
    tmp_path: Path, architecture: str, weight_type: str, tied: bool
) -> None:
    model = save_llama(tmp_path / "m", architecture=architecture, tie_word_embeddings=tied)
    assert 0 < distance(model, tmp_path, weight_type) < BOUNDS[weight_type]


def types_of(path: Path) -> dict[str, str]:
    return {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}


def test_q4_0_keeps_embeddings_and_output_finer(tmp_path: Path) -> None:
    model = save_llama(tmp_path / "m", tie_word_embeddings=False)
    export_gguf(model, tmp_path / "model.gguf", "q4_0")
    types = types_of(tmp_path / "model.gguf")
    assert (types["token_embd.weight"], types["output.weight"]) == ("Q8_0", "Q8_0")
    assert (types["blk.0.attn_q.weight"], types["output_norm.weight"]) == ("Q4_0", "F32")


@pytest.mark.parametrize("weight_type", ["q8_0", "q4_0"])
def test_rows_that_no_block_fits_stay_f16(tmp_path: Path, weight_type: str) -> None:
    model = save_llama(tmp_path / "m", hidden_size=48, head_dim=12)
    assert 0 < distance(model, tmp_path, weight_type) < BOUNDS[weight_type]
    types = types_of(tmp_path / "model.gguf")
    assert (types["token_embd.weight"], types["blk.0.attn_q.weight"]) == ("F16", "F16")
    assert types["blk.0.ffn_down.weight"] == weight_type.upper()


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


def test_a_conversion_holds_a_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest matrix as it is stored, and little else: not even itself in F32."""
    model = save_llama(tmp_path / "m", intermediate_size=16384, num_hidden_layers=4)
    largest = 16384 * 64 * 2
    monkeypatch.setattr(export, "_VALUES_AT_ONCE", 1 << 12)
    tracemalloc.start()
    try:
        export_gguf(model, tmp_path / "model.gguf", "f16")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * largest < (tmp_path / "model.gguf").stat().st_size / 8
