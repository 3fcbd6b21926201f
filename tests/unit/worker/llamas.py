"""Small random checkpoints (Llama, Qwen2, Qwen3) in Hugging Face form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

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
CONFIGS: dict[str, type[PreTrainedConfig]] = {
    "llama": LlamaConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
}


def save_llama(
    directory: Path,
    *,
    architecture: str = "llama",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    **config: Any,
) -> ModelDirectory:
    """A random model with the files a model directory needs; its text files say little.

    Weights are large enough that a wrong mask, position or row order moves logits by more than 1.
    """
    torch.manual_seed(seed)
    settings = CONFIGS[architecture](**{**DEFAULTS, **config})
    model = AutoModelForCausalLM.from_config(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.15 if parameter.ndim == 2 else 0.3
            parameter.normal_(float(parameter.ndim == 1), spread)  # biases too
    model.to(dtype).save_pretrained(directory)
    (directory / "tokenizer.json").write_text(tokenizer_json(settings.vocab_size))
    (directory / "multiverse.json").write_text("{}")
    return ModelDirectory(directory)


def tokenizer_json(tokens: int) -> str:
    """A tokenizer of so many words, `w0` and so on."""
    vocabulary = {f"w{index}": index for index in range(tokens)}
    return json.dumps(
        {"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}, "added_tokens": []}
    )


def load_llama(model: ModelDirectory) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(
        model.path, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@torch.inference_mode()
def logits_of(llama: PreTrainedModel, ids: Ids) -> Logits:
    """[S, vocab] of a plain sequence."""
    rows: np.ndarray = llama(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()
    return rows
