"""Multiverse Attention as an attention of transformers: `attn_implementation="multiverse"`.

The mask comes with each call: a block mask goes to FlexAttention, a boolean one to SDPA. No model
code is changed; Llama, Qwen2, Qwen3 and whatever else uses the attention interface can be trained.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from multiverse_trainer.attention.masks import block_mask, dense_mask

NAME = "multiverse"
Attended = tuple[Tensor, Tensor | None]


def register() -> None:
    """Make the name known to transformers; to do it twice changes nothing."""
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)  # where no mask of ours is given


def mask_for(first_bds: Tensor, last_bds: Tensor) -> Tensor | BlockMask:
    """What a model on the tensors' device takes as its `attention_mask`."""
    if first_bds.is_cuda:
        return block_mask(first_bds, last_bds)
    return dense_mask(first_bds, last_bds)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | BlockMask | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> Attended:
    if not isinstance(attention_mask, BlockMask):
        attended: Attended = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **options
        )
        return attended
    if dropout:
        raise ValueError("FlexAttention has no dropout; set attention_dropout to 0")
    attend = _compiled() if query.is_cuda else flex_attention
    out = attend(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2).contiguous(), None


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=False)
