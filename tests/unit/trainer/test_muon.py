"""Muon: what it does to matrices, what AdamW does to the rest, and that its state can be kept."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim import Muon as TorchMuon
from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_trainer.recipe.muon import Muon, muon_for, orthogonal

RATES = {"muon_rate": 0.02, "rate": 3e-3, "decay": 0.05, "beta2": 0.98}


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 40}
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=2, tie_word_embeddings=True, **size))


def train(made: nn.Module, optimiser: torch.optim.Optimizer, steps: range) -> list[float]:
    losses = []
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, 40, (2, 12), generator=generator)
        loss = made(input_ids=ids, labels=ids).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss))
    return losses


def test_every_singular_value_of_an_update_is_about_one() -> None:
    torch.manual_seed(1)
    for shape in ((3, 24, 40), (2, 40, 24)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert float(values.min()) > 0.5
        assert float(values.max()) < 1.3


def test_a_matrix_moves_as_under_the_muon_of_torch() -> None:
    torch.manual_seed(2)
    start, gradients = torch.randn(24, 16), torch.randn(3, 24, 16)
    ours, theirs = (nn.Parameter(start.clone()) for _ in range(2))
    mine = Muon([{"params": [ours], "orthogonal": True}], lr=0.02, weight_decay=0.05)
    due = TorchMuon([theirs], lr=0.02, weight_decay=0.05, nesterov=True)
    for gradient in gradients:
        for parameter, optimiser in ((ours, mine), (theirs, due)):
            parameter.grad = gradient.clone()
            optimiser.step()
    moved, expected = (ours - start).detach(), (theirs - start).detach()
    # torch averages (1 - momentum) of each gradient, and multiplies in bfloat16.
    assert torch.nn.functional.cosine_similarity(moved.ravel(), expected.ravel(), dim=0) > 0.99


def test_embeddings_and_vectors_are_left_to_adamw() -> None:
    made, other = model(), model()
    optimiser = muon_for(made, **RATES)
    outer = {"model.embed_tokens.weight"} | {n for n, p in made.named_parameters() if p.ndim == 1}
    due = AdamW(
        [
            {"params": [other.model.embed_tokens.weight]},
            {"params": [p for p in other.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=RATES["rate"],
        betas=(0.9, RATES["beta2"]),
        weight_decay=RATES["decay"],
    )
    train(made, optimiser, range(1))
    train(other, due, range(1))
    now = dict(other.named_parameters())
    for name, parameter in made.named_parameters():
        assert torch.equal(parameter, now[name]) is (name in outer), name


def test_with_its_state_a_training_goes_on_bit_for_bit() -> None:
    made = model()
    optimiser = muon_for(made, **RATES)
    train(made, optimiser, range(3))
    again = model(seed=9)
    again.load_state_dict(made.state_dict())
    resumed = muon_for(again, **RATES)
    resumed.load_state_dict(deepcopy(optimiser.state_dict()))
    assert train(made, optimiser, range(3, 6)) == train(again, resumed, range(3, 6))
    pairs: list[tuple[Tensor, Tensor]] = list(
        zip(made.parameters(), again.parameters(), strict=True)
    )
    assert all(torch.equal(a, b) for a, b in pairs)
