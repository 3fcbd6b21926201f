"""What mask and positions of a row cost: spans and block grid against a dense float mask.

Each is built in a process of its own, whose peak memory is taken. The tree is random, with forks
down to depth 3. Also a training step of a small model under our mask against a causal one. One
JSON line last.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from multiverse_shared.tree import Context, count
from multiverse_trainer.attention.example import Example, make_example
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.attention.masks import BLOCK, block_mask
from multiverse_trainer.attention.spans import runs_of, span_table
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import loss_of
from tests.conformance.trees import random_tree

MIB = 1 << 20


def tree_of(size: int, seed: int) -> Context:
    """A random tree of at most `size` tokens, and no less than two thirds of them."""
    rng = Random(f"{seed}/{size}")
    while True:
        tree = random_tree(rng, size, most_blocks=64)
        if 2 * size // 3 <= count(tree) <= size:
            return tree


def ours(example: Example, size: int) -> list[Tensor]:
    positions = np.zeros(size, np.int64)
    positions[: len(example)] = example.positions
    first, last = (torch.from_numpy(t) for t in span_table([runs_of(example.segments)], size))
    mask = block_mask(first, last)
    grid = [t for t in mask.as_tuple() if isinstance(t, Tensor)]
    return [torch.from_numpy(positions), first, last, *grid]


def published(example: Example, size: int) -> list[Tensor]:
    """The shape of the published code: float S x S on the CPU."""
    mask = torch.full((1, 1, size, size), torch.finfo(torch.float32).min).triu_(1)
    for segment in example.segments:
        kept = torch.zeros(segment.start, dtype=torch.bool)
        for start, stop in segment.visible:
            kept[start:stop] = True
        rows = mask[0, 0, segment.start : segment.stop, : segment.start]
        rows[:, ~kept] = torch.finfo(torch.float32).min
    return [torch.arange(size), mask]


def measure(build: Callable[[Example, int], list[Tensor]], size: int, seed: int, pipe: Any) -> None:
    example = make_example(tree_of(size, seed))
    build(make_example(tree_of(256, seed)), 256)  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(3 if build is ours else 1):  # a dense mask of 4 GiB takes its time
        begun = time.perf_counter()
        made = build(example, size)
        times.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    held, grid = (
        sum(t.numel() * t.element_size() for t in tensors)
        for tensors in (made, [t for t in made if t.shape[-2:] == (size // BLOCK, size // BLOCK)])
    )
    pipe.send(
        {
            "ms": 1e3 * min(times),
            "mib": held / MIB,
            "grid_mib": grid / MIB,  # (S / 128)^2; the rest is linear in S
            "peak_mib": peak / 1024,
        }
    )


def in_a_process(build: Callable[[Example, int], list[Tensor]], size: int, seed: int) -> Any:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(build, size, seed, send))
    process.start()
    send.close()
    found = receive.recv()
    process.join()
    return found


def steps(size: int, seed: int, device: str, small: bool) -> dict[str, float]:
    """Seconds of forward and backward under our mask and under a causal one, alternating."""
    register()
    shape = (
        {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "vocab_size": 1024}
        if small
        else {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24}
    )
    heads = {"num_attention_heads": 14 if not small else 2, "num_key_value_heads": 2}
    config = Qwen2Config(**shape, **heads, tie_word_embeddings=True)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = Qwen2ForCausalLM(config).to(device, dtype)
    model.set_attn_implementation(NAME)
    if not small:
        model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()
    multiple = size if device == "cuda" else BLOCK
    batch = Collator(0, multiple)([[make_example(tree_of(size, seed))]])
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    width = batch["input_ids"].shape[1]

    def forked() -> None:
        loss_of(model, batch).backward()

    def causal() -> None:
        logits = model(
            input_ids=batch["input_ids"],
            position_ids=torch.arange(width, device=device)[None],
            logits_to_keep=batch["sources"],
            use_cache=False,
        ).logits[0]
        torch.nn.functional.cross_entropy(logits.float(), batch["labels"]).backward()

    took: dict[str, list[float]] = {"ours": [], "causal": []}
    for index in range(4):
        for name, step in (("ours", forked), ("causal", causal)):
            _wait(device)
            begun = time.perf_counter()
            model.set_attn_implementation(NAME if name == "ours" else "sdpa")
            step()
            _wait(device)
            if index:  # the first one compiles
                took[name].append(time.perf_counter() - begun)
    best = {name: min(times) for name, times in took.items()}
    return {
        "tokens": width,
        "ours_s": round(best["ours"], 4),
        "causal_s": round(best["causal"], 4),
        "ratio": round(best["ours"] / best["causal"], 3),
    }


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 16384, 32768])
    parser.add_argument("--step-sizes", type=int, nargs="*", help="1024; on a GPU 8192 and 32768")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=20261129)
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for size in options.sizes:
        mine, dense = (in_a_process(build, size, options.seed) for build in (ours, published))
        rows[str(size)] = {
            **{f"{key}": round(value, 3) for key, value in mine.items()},
            **{f"dense_{k}": round(v, 3) for k, v in dense.items() if k != "grid_mib"},
            "times_less_memory": round(dense["mib"] / mine["mib"], 1),
        }
    small, large = str(min(options.sizes)), str(max(options.sizes))
    linear = [rows[size]["mib"] - rows[size]["grid_mib"] for size in (large, small)]
    growth = linear[0] / linear[1] / (int(large) / int(small))
    small_model = options.device == "cpu"
    step_sizes = [1024] if small_model else [8192, 32768]
    if options.step_sizes is not None:
        step_sizes = options.step_sizes
    taken = [steps(size, options.seed, options.device, small_model) for size in step_sizes]
    result = {
        "sizes": rows,
        "growth_over_linear_without_grid": round(growth, 3),
        "device": options.device,
        "steps": taken,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
