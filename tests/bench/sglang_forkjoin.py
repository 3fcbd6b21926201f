"""What fork and join cost in SGLang, beside its own n > 1 sampling of the same tokens.

The same tree in one engine: (a) with fork and join; (b) as a client of plain SGLang would do it:
the plan, then one request with n samples, then the conclusion over the text of all paths, which
is computed again. Prefixes are cached in both. Times are medians; cells are those that (a) held
at most, and those that (b) leaves in the cache. One JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.bench.tree_batch import TreeBatch
from tests.bench.tree_driver import Shape, Tree
from tests.conformance.engines import sglang


def sampled(engine: Any, tree: Tree, shape: Shape) -> float:
    """Seconds of way (b); what is sampled does not matter, only how many tokens."""

    def ask(ids: tuple[int, ...], tokens: int, n: int = 1) -> None:
        parameters = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 1.0, "n": n}
        engine.server.generate(input_ids=list(ids), sampling_params=parameters)

    engine.server.flush_cache()
    began = time.perf_counter()
    ask(tree.prompt, shape.plan)
    before = tree.prompt + tree.plan
    ask(before, shape.path, shape.paths)
    text = before + tuple(token for ids in tree.paths for token in ids)
    ask(text + tree.conclusion[:1], shape.conclusion)
    return time.perf_counter() - began


def measure(engine: SglangEngine, options: argparse.Namespace) -> dict[str, Any]:
    batch, out = TreeBatch(engine), {}
    for paths in options.paths:
        shape = Shape(options.prompt, options.plan, paths, options.path, options.conclusion)
        tree = Tree.random(shape, engine.info.vocab_size, random.Random(options.seed))
        batch.seconds([tree])
        forked = [batch.seconds([tree]) for _ in range(options.repeats)]
        serial = [batch.seconds([tree], serial=True) for _ in range(options.repeats)]
        plain = [sampled(engine, tree, shape) for _ in range(options.repeats)]
        own = shape.prompt + shape.total + shape.paths + 1
        out[str(paths)] = {
            "fork_join_s": round(statistics.median(forked), 4),
            "fork_join_spread_s": round(max(forked) - min(forked), 4),
            "serial_s": round(statistics.median(serial), 4),
            "n_samples_s": round(statistics.median(plain), 4),
            "fork_join_over_n_samples": round(
                statistics.median(forked) / statistics.median(plain), 3
            ),
            "cells_fork_join": own,
            "cells_n_samples": own + shape.paths * (shape.path + 1),
        }
        print(paths, out[str(paths)], file=sys.stderr)
    return out


def main() -> int:
    options = _options()
    engine = sglang(options.model, options.model, options.threads, kv_cells=options.kv_cells)
    assert isinstance(engine, SglangEngine)
    try:
        result = measure(engine, options)
    finally:
        engine.close()
    print(json.dumps({"bench": "sglang_forkjoin", "paths": result}))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--paths", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--plan", type=int, default=16)
    parser.add_argument("--path", type=int, default=32)
    parser.add_argument("--conclusion", type=int, default=16)
    parser.add_argument("--kv-cells", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
