"""The finished tiny model as a directory that serving can load.

Knows file names and formats. Must not know how the model was trained.
"""

from __future__ import annotations

import json
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_trainer.tiny.vocabulary import LONGEST_CONTEXT, SUFFIX, Vocabulary


def new_model(vocabulary: Vocabulary) -> LlamaForCausalLM:
    """Random weights: 1.3 million parameters in four layers."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=160,
            intermediate_size=448,
            num_hidden_layers=4,
            num_attention_heads=5,
            num_key_value_heads=5,
            head_dim=32,
            max_position_embeddings=LONGEST_CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=vocabulary.bos,
            eos_token_id=vocabulary.eos,
            pad_token_id=vocabulary.pad,
        )
    )


def publish(model: LlamaForCausalLM, vocabulary: Vocabulary, dialect: str, out: Path) -> None:
    """Writes weights, configuration, tokenizer and `multiverse.json` to `out`."""
    model.save_pretrained(out)
    vocabulary.write(out)
    about = {"dialect": dialect, "prompt_suffix": SUFFIX}
    (out / "multiverse.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
