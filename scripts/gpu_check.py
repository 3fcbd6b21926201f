"""What has to be seen on a GPU: is the SGLang engine exact there, and how fast is it?

For each way of running the model (attention kernels at page size 1, CUDA graphs on and off, two
GPUs): (1) every logit against a transformers oracle of the same type on the same device, beside
the noise of the same comparison on plain sequences; (2) latency per token against parallelism,
at three lengths; (3) speed-up over one path at a time, for growing batches. One JSON line last.

On a machine without a GPU it runs in small on the CPU: a rehearsal, not a measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.bench.tree_batch import TreeBatch
from tests.bench.tree_driver import Shape, Tree
from tests.conformance.oracle import MASKED, Oracle, random_model
from tests.conformance.suite import Case, compare
from tests.conformance.trees import random_tree, tree_of, vector_cases
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from multiverse_shared.tree import Context, Text
from multiverse_worker.contract import Engine
from multiverse_worker.engines.sglang.launch import SglangOptions, cpu_arguments, open_engine

VECTORS = Path(__file__).parents[1] / "tests" / "data" / "layout_stitch.json"
NOISE_FACTOR = 2.0  # stitched contexts may be off by so many times the noise of plain ones


class DeviceOracle(Oracle):
    """The oracle in a given type, on a given device, of any causal model."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: str) -> None:
        self._model = (
            AutoModelForCausalLM.from_pretrained(
                directory, dtype=dtype, attn_implementation="eager"
            )
            .to(device)
            .eval()
        )
        self._device, self._dtype = device, dtype
        self.vocab_size = self._model.config.vocab_size

    @torch.inference_mode()
    def _forward(self, ids: list[int], positions: list[int], visible: np.ndarray) -> np.ndarray:
        mask = torch.where(torch.from_numpy(visible), 0.0, MASKED)[None, None]
        output = self._model(
            input_ids=torch.tensor([ids], device=self._device),
            position_ids=torch.tensor([positions], device=self._device),
            attention_mask=mask.to(self._device, self._dtype),
            use_cache=False,
        )
        rows: np.ndarray = output.logits[0].float().cpu().numpy()
        return rows


def variants(gpus: int) -> dict[str, dict[str, Any]]:
    """SGLang arguments by name."""
    if gpus == 0:
        return {"cpu": cpu_arguments()}
    out: dict[str, dict[str, Any]] = {
        "triton": {"attention_backend": "triton"},
        "triton_without_graphs": {"attention_backend": "triton", "disable_cuda_graph": True},
        "flashinfer": {"attention_backend": "flashinfer"},
        "fa3": {"attention_backend": "fa3"},
        "triton_mixed_chunks": {
            "attention_backend": "triton",
            "enable_mixed_chunk": True,
            "chunked_prefill_size": 64,
        },
    }
    if gpus > 1:
        out["triton_on_two"] = {"attention_backend": "triton", "tp_size": 2}
    return out


def conformance(engine: Engine, oracle: Oracle, options: argparse.Namespace) -> dict[str, Any]:
    """Largest differences: of stitched contexts, and of plain ones (the noise)."""
    rng = random.Random(options.seed)
    shapes: list[Context] = [tree_of(case["context"]) for case in vector_cases(VECTORS)]
    shapes += [random_tree(rng, rng.randint(50, options.tree_tokens)) for _ in range(options.trees)]
    plain: list[Context] = [
        (Text((0,) * rng.randint(20, options.tree_tokens)),) for _ in range(len(shapes) // 2)
    ]
    diffs = {}
    for name, some in (("plain", plain), ("stitched", shapes)):
        cases = [Case.of(shape, oracle, rng) for shape in tqdm(some, desc=f"oracle, {name}")]
        seen = asyncio.run(compare(engine, cases, at_once=24))
        diffs[name] = seen.max_diff
    return {
        **{f"{name}_max_diff": diff for name, diff in diffs.items()},
        "ratio_to_noise": round(diffs["stitched"] / diffs["plain"], 3),
        "passed": diffs["stitched"] <= NOISE_FACTOR * diffs["plain"],
    }


def latency(batch: TreeBatch, vocab: int, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds per token of one tree, by its length and its number of paths."""
    out: dict[str, Any] = {}
    for length in options.lengths:
        for paths in options.paths:
            shape = Shape(64, 32, paths, (length - 96) // paths, 64)
            seconds = batch.seconds(_trees(shape, 1, vocab, options.seed))
            bound = shape.total / shape.critical
            out[f"{length} tokens, {paths} paths"] = {
                "ms_per_token": round(1000 * seconds / shape.total, 4),
                "total_over_critical": round(bound, 3),
            }
            print(length, paths, out[f"{length} tokens, {paths} paths"], file=sys.stderr)
    return out


def speed_up(batch: TreeBatch, vocab: int, options: argparse.Namespace) -> dict[str, Any]:
    """Wall clock of trees run serially over that of the same trees in parallel, by batch."""
    shape = Shape(64, 32, options.batch_paths, options.batch_path_tokens, 64)
    out: dict[str, Any] = {"bound": round(shape.total / shape.critical, 3)}
    for size in options.batches:
        trees = _trees(shape, size, vocab, options.seed)
        serial, parallel = batch.seconds(trees, serial=True), batch.seconds(trees)
        out[str(size)] = {
            "serial_s": round(serial, 3),
            "parallel_s": round(parallel, 3),
            "speed_up": round(serial / parallel, 3),
            "tokens_per_s": round(size * shape.total / parallel, 1),
        }
        print(size, out[str(size)], file=sys.stderr)
    return out


def _trees(shape: Shape, number: int, vocab: int, seed: int) -> list[Tree]:
    rng = random.Random(seed)
    return [Tree.random(shape, vocab, rng) for _ in range(number)]


def check(
    model: Path, arguments: dict[str, Any], oracle: Oracle, options: argparse.Namespace
) -> dict[str, Any]:
    more = {**arguments, **json.loads(options.sglang_arguments)}
    parallel = more.pop("tp_size", 1)
    dtype = "float32" if options.dtype == "f32" else "bfloat16"
    engine = open_engine(
        SglangOptions(model, options.kv_cells, None, dtype, parallel, options.running, None, more),
        namespace="gpu-check",
    )
    try:
        out: dict[str, Any] = {"conformance": conformance(engine, oracle, options)}
        batch, vocab = TreeBatch(engine), engine.info.vocab_size
        out["latency"] = latency(batch, vocab, options)
        out["speed_up"] = speed_up(batch, vocab, options)
        return out
    finally:
        engine.close()


def main() -> int:
    gpus = torch.cuda.device_count()
    options = _options(gpus)
    chosen = {
        name: arguments
        for name, arguments in variants(gpus).items()
        if not options.variants or name in options.variants
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        model = options.model or random_model(Path(scratch) / "random")
        dtype = torch.float32 if options.dtype == "f32" else torch.bfloat16
        oracle = DeviceOracle(model, dtype, "cuda" if gpus else "cpu")
        for name, arguments in chosen.items():
            try:
                results[name] = check(model, arguments, oracle, options)
            except Exception as error:  # what one way of running lacks must not hide the others
                results[name] = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps({name: results[name]}), file=sys.stderr)
    device = torch.cuda.get_device_name() if gpus else "cpu"
    passed = all(r.get("conformance", {}).get("passed", False) for r in results.values())
    print(json.dumps({"device": device, "dtype": options.dtype, "passed": passed, "ways": results}))
    return 0 if passed else 1


def _options(gpus: int) -> argparse.Namespace:
    small = gpus == 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="Hugging Face directory; random if left out")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="f32" if small else "bf16")
    parser.add_argument("--variants", nargs="*", default=[])
    parser.add_argument("--sglang-arguments", default="{}", help="for all ways, as JSON")
    parser.add_argument("--trees", type=int, default=2 if small else 40)
    parser.add_argument("--tree-tokens", type=int, default=80 if small else 1000)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[192] if small else [8192, 16384, 32768]
    )
    parser.add_argument(
        "--paths", type=int, nargs="+", default=[1, 4] if small else [1, 2, 4, 8, 16]
    )
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[1, 2] if small else [1, 2, 4, 8, 16, 32, 64, 128]
    )
    parser.add_argument("--batch-paths", type=int, default=4)
    parser.add_argument("--batch-path-tokens", type=int, default=8 if small else 256)
    parser.add_argument("--kv-cells", type=int, default=4096 if small else None)
    parser.add_argument("--running", type=int, default=16 if small else 512)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
