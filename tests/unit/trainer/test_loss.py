"""The loss is the same however samples are packed, batched and checkpointed; siblings get none."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from multiverse_trainer.attention.example import Example
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.attention.masks import block_mask, dense_mask
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of, loss_of
from tests.unit.trainer.rows import generated, samples

MODELS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@cache
def model(name: str = "llama") -> Any:
    register()
    torch.manual_seed(0)
    config, made = MODELS[name]
    size = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 96}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    return made(config(**size, **heads, attn_implementation=NAME, initializer_range=0.2))


@cache
def examples() -> tuple[Example, ...]:
    made = samples(generated(6))
    return tuple(made.example(index, parallel=index % 3 != 0) for index in range(6))


@pytest.mark.parametrize("name", list(MODELS))
def test_packed_batched_and_alone_the_loss_is_the_same(name: str) -> None:
    a, b, c, d, e, f = examples()
    collate = Collator(0, 8)
    with torch.no_grad():
        alone = sum(float(loss_of(model(name), collate([[x]]))) for x in examples())
        packed = float(loss_of(model(name), collate([[a, b, c, d, e, f]])))
        batched = float(loss_of(model(name), collate([[a, b, c], [d, e], [f]])))
    assert packed == pytest.approx(alone, rel=1e-5)
    assert batched == pytest.approx(alone, rel=1e-5)


def test_the_loss_is_that_of_the_whole_logits_under_the_dense_mask() -> None:
    [batch] = [Collator(0, 8)([[examples()[1]]])]
    with torch.no_grad():
        logits = model()(
            input_ids=batch["input_ids"],
            position_ids=batch["position_ids"],
            attention_mask=dense_mask(batch["first"], batch["last"]),
        ).logits[0]
        due = functional.cross_entropy(logits[batch["sources"]], batch["labels"], reduction="sum")
        assert float(loss_of(model(), batch)) == pytest.approx(float(due), rel=1e-6)


def test_checkpointing_changes_no_gradient() -> None:
    batch = Collator(0, 8)([list(examples()[:3])])
    gradients = []
    for checkpointing in (False, True):
        made = model()
        made.train()
        made.zero_grad()
        if checkpointing:
            made.activation_checkpointing_enable({"use_reentrant": False})
        loss_of(made, batch).backward()
        gradients.append([p.grad.clone() for p in made.parameters()])
        made.activation_checkpointing_disable()
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert any(bool(g.any()) for g in gradients[0])


def test_a_block_mask_gives_the_logits_of_the_dense_mask() -> None:
    register()
    batch = Collator(0, 128)([list(examples()[:3]), list(examples()[3:])])
    with torch.no_grad(), pytest.warns(UserWarning, match="without torch.compile"):
        got = logits_of(model(), batch, block_mask(batch["first"], batch["last"]))
    with torch.no_grad():
        due = logits_of(model(), batch)
    assert float((got - due).abs().max()) < 1e-4


@pytest.mark.parametrize("name", list(MODELS))
def test_the_loss_of_one_sample_has_no_gradient_in_its_neighbour_of_a_row(name: str) -> None:
    one, two = examples()[1], examples()[2]
    batch = Collator(0, 8)([[one, two]])
    chosen = batch["sources"] >= len(one)
    batch = {**batch, **{key: batch[key][chosen] for key in ("labels", "rows", "sources")}}
    made = model(name)
    embedded = made.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    logits = logits_of(made, batch, inputs_embeds=embedded)
    functional.cross_entropy(logits, batch["labels"]).backward()
    assert embedded.grad is not None
    assert not embedded.grad[0, : len(one)].any()
    assert embedded.grad[0, len(one) : len(one) + len(two)].any()
