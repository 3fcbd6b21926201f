"""What fork and join cost on the llama.cpp engine, as ratios within one run.

(a) metadata of forks and joins per cell, where they stand (after a step that has emptied the
    processor's caches of it) and repeated at once, and the first token behind a join against a
    plain step;
(b) trees in parallel and one path at a time, against the bound of the engine's own step(k);
(c) the same tokens by a client without fork and join: k requests, then one over their text;
(d) with an empty cache and one full of idle contexts;
(e) the share of drawing tokens in a step of 16 branches (top-p 0.95).
With one thread all times are of the processor, so other work on the machine does not count. One
JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from tqdm import tqdm

from multiverse_worker.contract import Sampling
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from multiverse_worker.sampling import Sampler
from tests.bench.tree_driver import Driver, Shape, Tree, timed

STEPS = 24
AGAIN = 5


class Copies:
    """Counts and times what the library is asked to copy, and the same copies done again."""

    def __init__(self, engine: LlamaCppEngine) -> None:
        self.cells = 0
        self.seconds = 0.0
        self.again_s = 0.0
        library, cache = engine._library, engine.cache
        copy = library.copy

        def timed_copy(source: int, target: int, start: int, stop: int) -> float:
            began = time.perf_counter()  # finer than the processor's clock
            copy(source, target, start, stop)
            return time.perf_counter() - began

        def counted(source: int, target: int, start: int, stop: int) -> None:
            self.seconds += timed_copy(source, target, start, stop)
            stop_before = stop if stop >= 0 else 1 << 30
            self.cells += len(cache.ledger._at(source, max(start, 0), stop_before))
            self.again_s += again(source, start, stop)

        def again(source: int, start: int, stop: int) -> float:
            times = []
            for _ in range(AGAIN):
                spare = cache._free_sequences[-1]
                times.append(timed_copy(source, spare, start, stop))
                library.remove(spare)
            return median(times)

        library.copy = counted  # type: ignore[method-assign]

    def reset(self) -> None:
        self.cells, self.seconds, self.again_s = 0, 0.0, 0.0


class Bench:
    """All parts on one engine."""

    def __init__(self, engine: LlamaCppEngine, options: argparse.Namespace) -> None:
        self.engine = engine
        self.vocab = engine.info.vocab_size
        self.driver = Driver(engine, options.clock)
        self.copies = Copies(engine)
        self.options = options

    def tree(self, shape: Shape) -> Tree:
        return Tree.random(shape, self.vocab, random.Random(self.options.seed))

    def metadata(self, length: int) -> dict[str, float]:
        """Part (a), for three paths of `length` tokens."""
        shape = Shape(prompt=64, plan=16, paths=3, path=length, conclusion=STEPS)
        context = shape.prompt + shape.plan + shape.paths * (length + 1)
        firsts: list[float] = []

        def run() -> float:
            self.engine.drop_cached()
            seconds = self.driver.fork_join(self.tree(shape), decode=2)
            firsts.append(self.driver.first_conclusion_s)
            return seconds

        self.copies.reset()
        timed(run, self.options.repeats)
        cells = self.copies.cells
        plain = self.driver.step_time(context, 1, STEPS, self.vocab)
        first = sorted(firsts)[len(firsts) // 2]
        return {
            "copy_us_per_cell": round(1e6 * self.copies.seconds / cells, 4),
            "copy_again_us_per_cell": round(1e6 * self.copies.again_s / cells, 4),
            "first_conclusion_ms": round(1e3 * first, 3),
            "plain_step_ms": round(1e3 * plain, 3),
            "first_conclusion_ratio": round(first / plain, 3),
        }

    def speed(self, paths: int) -> dict[str, float]:
        """Parts (b) and (c) for so many paths."""
        size = self.options
        shape = Shape(size.prompt, size.plan, paths, size.path, size.conclusion)
        tree = self.tree(shape)

        def fresh(run: Any, **how: bool) -> float:
            self.engine.drop_cached()
            seconds: float = run(tree, **how)
            return seconds

        repeats = size.repeats
        parallel = timed(lambda: fresh(self.driver.fork_join), repeats)
        serial = timed(lambda: fresh(self.driver.fork_join, serial=True), repeats)
        client = timed(lambda: fresh(self.driver.client_side), repeats)
        self.engine.drop_cached()
        middle = shape.prompt + shape.plan
        one = self.driver.step_time(middle, 1, STEPS, self.vocab)
        many = self.driver.step_time(middle + shape.path // 2, paths, STEPS, self.vocab)
        late = self.driver.step_time(middle + paths * shape.path, 1, STEPS, self.vocab)
        bound = shape.plan * one + shape.path * many + shape.conclusion * late
        return {
            "parallel_s": round(parallel, 4),
            "serial_s": round(serial, 4),
            "client_side_s": round(client, 4),
            "speedup": round(serial / parallel, 3),
            "total_over_critical": round(shape.total / shape.critical, 3),
            "ratio_to_bound": round(parallel / bound, 3),
            "client_side_ratio": round(client / parallel, 3),
        }

    def idle(self) -> dict[str, float]:
        """Part (d): four paths, with nothing else in the cache and with all it keeps idle."""
        size = self.options
        tree = self.tree(Shape(size.prompt, size.plan, 4, size.path, size.conclusion))
        self.engine.drop_cached()
        empty = timed(lambda: self.driver.fork_join(tree), size.repeats)
        self.driver.fill(self.engine.info.kv_cells // 2, self.vocab)
        load = self.engine.load()
        full = timed(lambda: self.driver.fork_join(tree), size.repeats)
        self.engine.drop_cached()
        return {
            "empty_s": round(empty, 4),
            "full_s": round(full, 4),
            "idle_cells": load.kv_cells - load.kv_cells_free,
            "ratio": round(full / empty, 3),
        }

    def sampling(self) -> dict[str, float]:
        """Part (e)."""
        spent = 0.0
        draw, clock = Sampler.next, self.options.clock

        def timed_draw(*args: Any) -> int:
            nonlocal spent
            began = clock()
            token = draw(*args)
            spent += clock() - began
            return token

        with patch.object(Sampler, "next", timed_draw):
            steps = self.driver.sampled_steps(16, STEPS, Sampling(0.8, 0.95, seed=1), self.vocab)
        return {"step_ms": round(1e3 * steps / (STEPS - 1), 3), "share": round(spent / steps, 4)}


def main() -> int:
    options = _options()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for directory in options.model:
            for kind in options.type:
                gguf = Path(scratch) / f"{directory.name}-{kind}.gguf"
                export_gguf(ModelDirectory(directory), gguf, kind)
                results[f"{directory.name} {kind}"] = _one(gguf, options)
    print(json.dumps({"bench": "forkjoin", "threads": options.threads, "models": results}))
    return 0


def _one(gguf: Path, options: argparse.Namespace) -> dict[str, Any]:
    engine = LlamaCppEngine(
        LibraryOptions(gguf, options.kv_cells, 64, 512, options.threads), namespace="bench"
    )
    try:
        bench = Bench(engine, options)
        out: dict[str, Any] = {"metadata": {}, "paths": {}}
        fitting = [n for n in options.lengths if 3 * n + 256 < engine.info.context_length]
        for length in tqdm(fitting, desc=f"{gguf.stem}: metadata"):
            out["metadata"][length] = bench.metadata(length)
        for paths in tqdm(options.paths, desc=f"{gguf.stem}: paths"):
            out["paths"][paths] = bench.speed(paths)
        out["idle_cache"] = bench.idle()
        out["sampling_of_16"] = bench.sampling()
        print(json.dumps({gguf.stem: out}), file=sys.stderr)
        return out
    finally:
        engine.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="model directories")
    parser.add_argument("--type", nargs="+", default=["f16"], help="weight types")
    parser.add_argument("--paths", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 512, 2048])
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--plan", type=int, default=32)
    parser.add_argument("--path", type=int, default=64)
    parser.add_argument("--conclusion", type=int, default=32)
    parser.add_argument("--kv-cells", type=int, default=16384)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    options = parser.parse_args()
    options.clock = time.process_time if options.threads == 1 else time.perf_counter
    return options


if __name__ == "__main__":
    sys.exit(main())
