"""LoRA trains its own matrices and the rows of the tags, and is merged into a plain model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of, loss_of
from multiverse_trainer.recipe.preparation import load_model
from multiverse_trainer.recipe.settings import load_settings
from tests.unit.trainer.rows import TINY, generated, samples, vocabulary

# peft on tied embeddings, and what it calls in transformers.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def test_a_step_moves_adapters_and_tag_rows_only(tmp_path: Path) -> None:
    settings = load_settings(
        preset="tiny", model=TINY, data=[tmp_path], output=tmp_path, lora_rank=4, optimiser="adamw"
    )
    model = load_model(settings, vocabulary())
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in name or "token_adapter" in name for name in trained)
    assert any("token_adapter" in name for name in trained)
    batch = Collator(0, 8)([[samples(generated(1)).example(0, parallel=True)]])
    optimiser = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
    before = float(loss_of(model, batch))
    loss_of(model, batch).backward()
    optimiser.step()
    with torch.no_grad():
        assert float(loss_of(model, batch)) != before
        adapted = logits_of(model, batch)
        merged = logits_of(model.merge_and_unload(), batch)
    assert float((adapted - merged).abs().max()) < 1e-4
