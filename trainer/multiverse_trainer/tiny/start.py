"""The tiny model before training: `python -m multiverse_trainer.tiny.start --out DIR`.

Writes a model directory with random weights and the tiny vocabulary.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_shared.dialect import load_dialect
from multiverse_trainer.tiny.vocabulary import LONGEST_CONTEXT, SUFFIX, Vocabulary

DIALECT = "multiverse"


def write_start(out: Path, seed: int) -> None:
    """870,000 parameters in four layers."""
    vocabulary = Vocabulary(load_dialect(DIALECT))
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary.tokens),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=32,
            max_position_embeddings=LONGEST_CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=vocabulary.bos,
            eos_token_id=vocabulary.eos,
            pad_token_id=vocabulary.pad,
        )
    )
    model.save_pretrained(out)
    vocabulary.write(out)
    about = {"dialect": DIALECT, "prompt_suffix": SUFFIX}
    (out / "multiverse.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="model directory to write")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    options = parser.parse_args()
    write_start(options.out, options.seed)


if __name__ == "__main__":
    main()
