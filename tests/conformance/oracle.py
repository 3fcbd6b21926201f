"""The oracle: one plain transformers forward with an explicit mask and explicit positions.

Written from the definition of the stitch rule, token by token, without the product's layout
code; slow on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from multiverse_shared.tree import Context, Text

MASKED = -1e30
VOCAB = 512
ARCHITECTURES: dict[str, type[PreTrainedConfig]] = {
    "llama": LlamaConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
}


@dataclass
class Layout:
    """Linear order of a tree: ids, positions, and for each token its path in each block."""

    ids: list[int]
    positions: list[int]
    paths: list[dict[int, int]]  # block number -> path number

    @property
    def visible(self) -> np.ndarray:
        """[S, S] bool: row may attend to column."""
        size = len(self.ids)
        out = np.tril(np.ones((size, size), bool))
        blocks = sorted({block for path in self.paths for block in path})
        for block in blocks:
            own = np.array([path.get(block, -1) for path in self.paths])
            inside = own >= 0
            out &= ~(inside[:, None] & inside[None, :] & (own[:, None] != own[None, :]))
        return out


def lay_out(context: Context) -> Layout:
    """From the definition: largest position so far decides where a block's follower stands."""
    layout = Layout([], [], [])
    blocks = iter(range(1 << 30))

    def walk(items: Context, before: int, inside: dict[int, int]) -> int:
        """`before` is the position of the token before; returns the largest one reached."""
        for item in items:
            if isinstance(item, Text):
                for token in item.ids:
                    before += 1
                    layout.ids.append(token)
                    layout.positions.append(before)
                    layout.paths.append(dict(inside))
                continue
            number = next(blocks)
            reached = before
            for index, path in enumerate(item.paths):
                reached = max(reached, walk(path, before, {**inside, number: index}))
            before = reached
        return before

    walk(context, -1, {})
    return layout


def random_model(
    directory: Path, architecture: str = "llama", vocab: int = VOCAB, seed: int = 0
) -> Path:
    """A small random model (grouped heads, tied embeddings), saved in Hugging Face form.

    Weights are large enough that a wrong mask or position moves logits by more than 1.
    """
    torch.manual_seed(seed)
    config = ARCHITECTURES[architecture](
        vocab_size=vocab,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=16384,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.08)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
            elif "q_norm" in name or "k_norm" in name:
                parameter.normal_(1, 0.3)
    model.save_pretrained(directory)
    return directory


def rounded_model(directory: Path, target: Path) -> Path:
    """The model with every matrix replaced by what Q8_0 keeps of it.

    To round it again changes nothing, so an engine that stores it in Q8_0 has these weights.
    """
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    kind = gguf.GGMLQuantizationType.Q8_0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                blocks = gguf.quants.quantize(parameter.numpy(), kind)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind)))
    model.save_pretrained(target)
    return target


class Oracle:
    """Reference logits of a Hugging Face model in F32."""

    def __init__(self, directory: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.vocab_size: int = self._model.config.vocab_size
        self.architecture: str = self._model.config.model_type

    def logits(self, layout: Layout) -> np.ndarray:
        """[S, vocab] under the layout's mask and positions."""
        return self._forward(layout.ids, layout.positions, layout.visible)

    def wrong_positions(self, layout: Layout) -> np.ndarray:
        """The right mask with plain counting positions: a control that must differ."""
        return self._forward(layout.ids, list(range(len(layout.ids))), layout.visible)

    def causal(self, layout: Layout) -> np.ndarray:
        """The right positions with a plain causal mask: a control that must differ."""
        size = len(layout.ids)
        return self._forward(layout.ids, layout.positions, np.tril(np.ones((size, size), bool)))

    @torch.inference_mode()
    def _forward(self, ids: list[int], positions: list[int], visible: np.ndarray) -> np.ndarray:
        mask = torch.where(torch.from_numpy(visible), 0.0, MASKED)[None, None]
        output = self._model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.tensor([positions]),
            attention_mask=mask,
            use_cache=False,
        )
        return output.logits[0].numpy()
