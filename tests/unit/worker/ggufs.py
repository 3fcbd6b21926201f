"""Small random GGUF files as a user might bring them: any architecture, with a vocabulary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

WIDTH, HIDDEN, HEADS = 64, 96, 4
TOKENS = [chr(0x4E00 + index) for index in range(95)] + ["<end>"]
_LLAMA = {
    "attn_norm": (WIDTH,),
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (WIDTH, WIDTH),
    "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_norm": (WIDTH,),
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
}
_GEMMA3 = _LLAMA | {
    "attn_q_norm": (WIDTH // HEADS,),
    "attn_k_norm": (WIDTH // HEADS,),
    "post_attention_norm": (WIDTH,),
    "post_ffw_norm": (WIDTH,),
}
_MAMBA = {
    "attn_norm": (WIDTH,),
    "ssm_in": (256, WIDTH),
    "ssm_conv1d": (128, 4),
    "ssm_conv1d.bias": (128,),
    "ssm_x": (40, 128),
    "ssm_dt": (128, 8),
    "ssm_dt.bias": (128,),
    "ssm_a": (128, 16),
    "ssm_d": (128,),
    "ssm_out": (WIDTH, 128),
}
LAYERS = {"llama": _LLAMA, "gemma3": _GEMMA3, "mamba": _MAMBA, "unheard-of": _LLAMA}
_BARE = ("ssm_a", "ssm_d")  # their names don't end in .weight


def write_gguf(path: Path, architecture: str = "llama", tokens: Sequence[str] = TOKENS) -> Path:
    """One layer of random F32 weights; the last token is a control token."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(1e4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(tokens))
    if architecture == "gemma3":
        writer.add_sliding_window(16)
    if architecture == "mamba":
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_inner_size(128)
        writer.add_ssm_state_size(16)
        writer.add_ssm_time_step_rank(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(tokens))
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges([f"{tokens[0]} {tokens[1]}"])
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output_norm.weight": (WIDTH,)}
    for name, shape in LAYERS[architecture].items():
        bare = name in _BARE or "." in name
        shapes[f"blk.0.{name}" if bare else f"blk.0.{name}.weight"] = shape
    for name, shape in shapes.items():
        values = rng.normal(float("norm" in name), 0.15, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tokenizer(directory: Path, tokens: Sequence[str] = TOKENS, added: int = 1) -> None:
    """tokenizer.json of these tokens, the last `added` of them special, and a multiverse.json."""
    plain = len(tokens) - added
    special = [
        {
            "id": plain + index,
            "content": token,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for index, token in enumerate(tokens[plain:])
    ]
    model = {
        "type": "WordLevel",
        "vocab": {token: index for index, token in enumerate(tokens[:plain])},
        "unk_token": tokens[0],
    }
    (directory / "tokenizer.json").write_text(json.dumps({"model": model, "added_tokens": special}))
    (directory / "multiverse.json").write_text('{"dialect": "multiverse", "prompt_suffix": ""}')
