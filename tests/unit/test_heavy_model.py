"""Weights that change nothing: the same model, only heavier."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.bench.heavy_model import write_heavy
from tests.unit.trainer.rows import TINY


def logits_of(model: Path) -> torch.Tensor:
    """[tokens, vocab] of some prompt."""
    made = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.inference_mode():
        return made(torch.arange(10, 60)[None]).logits[0]


def test_a_heavy_copy_says_what_the_model_says(tmp_path: Path) -> None:
    heavy = tmp_path / "heavy"
    write_heavy(TINY, heavy, 1024)
    size = [(path / "model.safetensors").stat().st_size for path in (heavy, TINY)]
    assert size[0] > 1.8 * size[1]
    assert {path.name for path in heavy.iterdir()} == {path.name for path in TINY.iterdir()}
    torch.testing.assert_close(logits_of(heavy), logits_of(TINY), atol=1e-4, rtol=0.0)


def test_a_copy_can_not_have_fewer_units(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="384 units already"):
        write_heavy(TINY, tmp_path / "light", 100)
