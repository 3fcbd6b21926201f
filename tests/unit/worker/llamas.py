"""Small random Llama checkpoints in Hugging Face form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_worker.contract import Ids, Logits
from multiverse_worker.models.directory import ModelDirectory

DEFAULTS: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
}


def save_llama(
    directory: Path, *, dtype: torch.dtype = torch.float32, seed: int = 0, **config: Any
) -> ModelDirectory:
    """A random model with the files a model directory needs; its text files say nothing.

    Weights are large enough that a wrong mask, position or row order moves logits by more than 1.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**DEFAULTS, **config}))
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.15 if parameter.ndim == 2 else 0.3
            parameter.normal_(float(parameter.ndim == 1), spread)
    model.to(dtype).save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")
    (directory / "multiverse.json").write_text("{}")
    return ModelDirectory(directory)


def load_llama(model: ModelDirectory) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(
        model.path, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@torch.inference_mode()
def logits_of(llama: LlamaForCausalLM, ids: Ids) -> Logits:
    """[S, vocab] of a plain sequence."""
    rows: np.ndarray = llama(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()
    return rows
