"""`python -m tests.conformance`: the conformance suite as a command; one JSON line last.

`--config exact` (F32 weights and cells, no flash attention) holds every logit to 1e-3 of the
oracle. `--config served` runs what a worker serves with: Q8_0 weights, F16 cells, flash attention.
There the engine rounds, so it is held to its own noise: the largest difference on fork-join trees
may be at most twice the largest one on plain sequences of the same lengths, measured in the same
run in the same modes. The oracle then has the weights that Q8_0 keeps, so that the rounding of
weights, the same in both and larger than all else, hides nothing: what is left is the rounding of
activations and cells, the order of sums in flash attention, and the company in the batch.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from multiverse_shared.layout import next_position, positions
from multiverse_shared.tree import Context, Text, count, linearise
from multiverse_worker.contract import Engine
from tests.conformance.engines import CONFIGURATIONS, ENGINES, sim
from tests.conformance.names import check_names
from tests.conformance.oracle import (
    ARCHITECTURES,
    Oracle,
    lay_out,
    random_model,
    rounded_model,
)
from tests.conformance.suite import Case, compare
from tests.conformance.trees import random_tree, tree_of, vector_cases, with_ids

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 1e-3
LARGEST_RATIO = 2.0
LEAST_CONTROL = 1.0


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    if options.engine == "sim":
        rng = random.Random(options.seed)
        result = check_names(sim(), _shapes(options, rng), options.at_once, options.seed)
        print(json.dumps(result))
        return 0 if result["passed"] else 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        directory = options.model or random_model(folder / "random", options.arch)
        if options.config == "served":
            directory = rounded_model(directory, folder / "rounded")
        oracle = Oracle(directory)
        arguments = json.loads(options.engine_arguments)
        engine = ENGINES[options.engine](
            directory, folder, options.threads, options.config, **arguments
        )
        try:
            result = _check(engine, oracle, options)
        finally:
            engine.close()
    print(json.dumps(result))
    return 0 if result["passed"] else 1


def _shapes(options: argparse.Namespace, rng: random.Random) -> list[Context]:
    """The vectors, and random trees behind them."""
    vectors: list[Context] = [tree_of(c["context"]) for c in vector_cases(options.vectors)]
    sizes = [rng.randint(8, options.max_tokens) for _ in range(options.trees)]
    return vectors + [random_tree(rng, size) for size in sizes]


def _check(engine: Engine, oracle: Oracle, options: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(options.seed)
    shapes = _shapes(options, rng)
    vectors = shapes[: len(shapes) - options.trees]
    cases = [Case.of(shape, oracle, rng) for shape in tqdm(shapes, desc="oracle")]
    cases += [Case.of(shape, oracle, rng, different_ids=2) for shape in vectors]
    rng.shuffle(cases)  # large trees and small ones side by side
    modes: dict[str, dict[str, Any]] = {
        "alone": {},
        "cache_dropped_between_fork_and_join": {"drop_before_join": True},
        f"{options.at_once}_at_once": {"at_once": options.at_once},
    }
    chosen = tuple(options.modes) or ("",)
    modes = {name: mode for name, mode in modes.items() if name.endswith(chosen)}
    diffs, compared = _differences(engine, cases, modes, options.seed)
    served: dict[str, Any] = {}
    allowed = TOLERANCE
    if options.config == "served":
        plain = [_plain_case(case, oracle, rng) for case in tqdm(cases, desc="plain oracle")]
        noise, _ = _differences(engine, plain, modes, options.seed)
        allowed = LARGEST_RATIO * max(noise.values())
        served = {
            "noise_plain": max(noise.values()),
            "noise_plain_by_mode": noise,
            "ratio": max(diffs.values()) / max(noise.values()),
        }
    engine.drop_cached()
    load = engine.load()
    wrong, causal = _controls(oracle, rng)
    offsets = _offset_mismatches(options.offsets)
    leaked = load.kv_cells - load.kv_cells_free + load.leases
    return {
        "engine": options.engine,
        "config": options.config,
        "arch": oracle.architecture,
        "cases": len(cases),
        "logits_compared": compared,
        "max_diff": max(diffs.values()),
        "max_diff_by_mode": diffs,
        **served,
        "control_wrong_positions_diff": wrong,
        "control_causal_diff": causal,
        "offset_cases": len(vector_cases(options.offsets)),
        "offset_mismatches": offsets,
        "leaked": leaked,
        "passed": max(diffs.values()) <= allowed
        and min(wrong, causal) > max(LEAST_CONTROL, 2 * allowed)
        and offsets == 0
        and leaked == 0,
    }


def _differences(
    engine: Engine, cases: list[Case], modes: dict[str, dict[str, Any]], seed: int
) -> tuple[dict[str, float], int]:
    """Largest difference by mode, and the number of rows compared in all."""
    diffs: dict[str, float] = {}
    compared = 0
    for name, mode in modes.items():
        with tqdm(total=len(cases), desc=name) as bar:
            seen = asyncio.run(compare(engine, cases, seed=seed, progress=bar.update, **mode))
        diffs[name] = seen.max_diff
        print(f"{name}: {seen}", file=sys.stderr)
        compared += seen.compared
    return diffs, compared


def _plain_case(case: Case, oracle: Oracle, rng: random.Random) -> Case:
    """A sequence without blocks, as long as the case's tree."""
    return Case.of((Text((0,) * count(case.tree)),), oracle, rng)


def _controls(oracle: Oracle, rng: random.Random) -> tuple[float, float]:
    """How far off a wrong layout would be: what tells a pass from a blind test."""
    shape = random_tree(rng, 400)
    size = len(linearise(shape))
    layout = lay_out(with_ids(shape, [rng.randrange(oracle.vocab_size) for _ in range(size)]))
    right = oracle.logits(layout)
    wrong = float(np.abs(oracle.wrong_positions(layout) - right).max())
    causal = float(np.abs(oracle.causal(layout) - right).max())
    return wrong, causal


def _offset_mismatches(path: Path) -> int:
    """Vectors with offsets, through the product's layout functions."""
    wrong = 0
    for case in vector_cases(path):
        tree = tree_of(case["context"], case["path_offset"], case["join_offset"])
        same = positions(tree) == case["positions"]
        wrong += not (same and next_position(tree) == case["next_position"])
    return wrong


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=[*sorted(ENGINES), "sim"], default="llamacpp")
    parser.add_argument("--engine-arguments", default="{}", help="of the engine, as JSON")
    parser.add_argument("--modes", nargs="*", default=[], help="by the ends of their names")
    parser.add_argument("--config", choices=sorted(CONFIGURATIONS), default="exact")
    parser.add_argument("--vectors", type=Path, default=DATA / "layout_stitch.json")
    parser.add_argument("--offsets", type=Path, default=DATA / "layout_offsets.json")
    parser.add_argument("--model", type=Path, help="model directory; random if left out")
    parser.add_argument("--arch", choices=sorted(ARCHITECTURES), default="llama", help="if random")
    parser.add_argument("--trees", type=int, default=100, help="random trees")
    parser.add_argument("--max-tokens", type=int, default=3000, help="of a random tree")
    parser.add_argument("--at-once", type=int, default=24, help="requests in the third mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
