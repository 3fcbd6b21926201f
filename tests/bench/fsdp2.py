"""Training steps under FSDP2 against one process: `torchrun -m tests.bench.fsdp2`.

torch's fully_shard over gloo on CPUs, each process with its own row; losses of some AdamW steps and
the weights after them. One JSON line last; status 1 when a loss differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch
from torch import distributed
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import loss_of
from tests.unit.trainer.rows import generated, samples

MOST = 1e-4


def new_model() -> Any:
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 96}
    return LlamaForCausalLM(LlamaConfig(**size, **heads, attn_implementation=NAME))


def train(model: Any, rows: list[list[Any]], labels: int, scale: int) -> list[float]:
    """Steps over the rows, of which this process has its own; `scale` undoes the mean."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = Collator(0, 8)(rows)
    losses: list[float] = []
    for _ in range(4):
        loss = loss_of(model, batch) / labels * scale
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        total = loss.detach().clone()
        if scale > 1:
            distributed.all_reduce(total)
        losses.append(float(total) / scale)
    return losses


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    register()
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    made = samples(generated(2 * processes))
    rows = [
        [made.example(2 * n, parallel=True), made.example(2 * n + 1, parallel=n % 2 == 0)]
        for n in range(processes)
    ]
    labels = sum(len(example.targets) for row in rows for example in row)
    sharded = new_model()
    for layer in sharded.model.layers:
        fully_shard(layer)
    fully_shard(sharded)
    found = train(sharded, [rows[rank]], labels, processes)
    weights = {name: tensor.full_tensor() for name, tensor in sharded.state_dict().items()}
    distributed.barrier()
    distributed.destroy_process_group()
    if rank:
        return
    alone = new_model()
    due = train(alone, rows, labels, 1)
    moved = max(float((weights[name] - t).abs().max()) for name, t in alone.state_dict().items())
    differs = max(abs(a - b) for a, b in zip(found, due, strict=True))
    result = {
        "max_diff": differs,
        "weights_diff": moved,
        "losses": found,
        "processes": processes,
        "backend": "gloo",
    }
    print(json.dumps(result))
    sys.exit(differs > MOST)


if __name__ == "__main__":
    main()
