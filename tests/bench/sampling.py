"""What drawing a token costs: ms per step of many rows, beside the step of a model.

Rows are of two shapes: "peaked", where a few ids have most of the probability as in running text,
and "flat", where thousands share it: the worst case of top-p. Times are of the processor, so
other work on the machine does not count. A full sort of the same rows is the baseline. One JSON
line last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from multiverse_worker.contract import Logits, Sampling
from multiverse_worker.logprobs import report
from multiverse_worker.sampling import Sampler

SEEN = 2000  # ids that penalties count
ALL_OF_IT = Sampling(
    0.8,
    0.95,
    40,
    min_p=0.05,
    presence_penalty=0.5,
    frequency_penalty=0.5,
    repetition_penalty=1.1,
)
KINDS = {
    "greedy": Sampling(),
    "temperature": Sampling(0.8),
    "top_p_0.95": Sampling(0.8, 0.95),
    "top_k_40": Sampling(0.8, top_k=40),
    "top_k_top_p_min_p_penalties": ALL_OF_IT,
    "greedy_logprobs_5": Sampling(logprobs=True, top_logprobs=5),
}


def rows_of(shape: str, rows: int, vocab: int, seed: int) -> Logits:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, vocab)).astype(np.float32)
    if shape == "peaked":
        logits *= 3
        logits[:, :20] += 8
    return logits


def milliseconds(step: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and largest of `repeats` steps, after one that does not count; CPU time."""
    step()
    times = []
    for _ in range(repeats):
        begun = time.thread_time()
        step()
        times.append((time.thread_time() - begun) * 1000)
    return statistics.median(times), max(times)


def drawing(logits: Logits, sampling: Sampling) -> Callable[[], object]:
    samplers = [Sampler(sampling, range(SEEN)) for _ in logits]

    def step() -> None:
        for row, sampler in zip(logits, samplers, strict=True):
            report(row, sampler.next(row, ()), sampling)

    return step


def full_sort(logits: Logits) -> None:
    """Top-p 0.95 the plain way."""
    for row in logits:
        weights = np.sort(np.exp(row - row.max(), dtype=np.float64))[::-1]
        np.searchsorted(weights.cumsum(), 0.95 * weights.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=49_152)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-ms", type=float, default=88.0, help="of a model at so many rows")
    options = parser.parse_args()
    shapes = {}
    for shape in ("peaked", "flat"):
        logits = rows_of(shape, options.rows, options.vocab, options.seed)
        shapes[shape] = {
            name: milliseconds(drawing(logits, sampling), options.repeats)
            for name, sampling in KINDS.items()
        }
        shapes[shape]["full_sort"] = milliseconds(lambda rows=logits: full_sort(rows), 5)  # type: ignore[misc]
    medians = {name: time[0] for name, time in shapes["peaked"].items() if name != "full_sort"}
    result = {
        "rows": options.rows,
        "vocab": options.vocab,
        "step_ms": options.step_ms,
        **{
            f"{shape}_ms": {name: round(median, 3) for name, (median, _) in times.items()}
            for shape, times in shapes.items()
        },
        "peaked_max_ms": {name: round(most, 3) for name, (_, most) in shapes["peaked"].items()},
        "share_of_step": {name: round(ms / options.step_ms, 4) for name, ms in medians.items()},
        "passed": max(medians.values()) < 0.1 * options.step_ms,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
