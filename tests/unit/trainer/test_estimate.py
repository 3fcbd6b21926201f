"""Every preset says what it needs before it starts, from the configuration of a model alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, Qwen2Config

from multiverse_trainer.recipe.preparation import estimate_of, make_plan
from multiverse_trainer.recipe.presets import PRESETS
from multiverse_trainer.recipe.settings import load_settings
from tests.unit.trainer.rows import TINY, generated, write_rows

GIB = 1 << 30
QWEN: dict[str, Any] = {"vocab_size": 152064, "tie_word_embeddings": False}
SIZES: dict[str, tuple[Any, float]] = {
    "tiny": (LlamaConfig.from_pretrained(TINY), 865_408),
    "smollm2-135m": (
        LlamaConfig(
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            vocab_size=49152,
            tie_word_embeddings=True,
        ),
        134.5e6,
    ),
    "7b": (
        Qwen2Config(
            hidden_size=3584,
            intermediate_size=18944,
            num_hidden_layers=28,
            num_attention_heads=28,
            num_key_value_heads=4,
            **QWEN,
        ),
        7.62e9,
    ),
    "32b": (
        Qwen2Config(
            hidden_size=5120,
            intermediate_size=27648,
            num_hidden_layers=64,
            num_attention_heads=40,
            num_key_value_heads=8,
            **QWEN,
        ),
        32.8e9,
    ),
}


SIZES["tiny-long"] = SIZES["tiny"]  # the same model, trained on


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_preset_knows_what_it_needs(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = 8 if PRESETS[preset].get("fsdp") else 1
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    config, size = SIZES[preset]
    model = tmp_path / "model"
    shutil.copytree(TINY, model, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    config.save_pretrained(model)
    data = write_rows(tmp_path / "d.jsonl", generated(4))
    settings = load_settings(preset=preset, model=model, data=[data], output=tmp_path / "out")
    work, needed = estimate_of(settings, make_plan(settings))
    assert work.parameters == pytest.approx(size, rel=0.01)
    assert work.processes == processes
    # F32 weights, gradients and two moments, over all processes.
    kept = needed.weights + needed.optimiser
    assert kept == pytest.approx(16 * size / processes, rel=0.01)
    assert kept < needed.memory < kept + 100 * GIB
    assert needed.seconds > 0
