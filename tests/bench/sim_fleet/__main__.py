"""Fleets of simulated workers under load: `auto` against eager, serial and TAPER-like forks.

Prints a table and one JSON line last; writes the table, all rows and plots to a folder. Every
case is run with each seed; a seed fixes what arrives and when, so policies meet the same requests.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from multiverse_worker.engines.sim.timing import StepTimes
from tests.bench.sim_fleet import report
from tests.bench.sim_fleet.baselines import SIBLINGS
from tests.bench.sim_fleet.measure import Case, row, run, saturation
from tests.bench.sim_fleet.mixes import MIXES
from tests.bench.sim_fleet.simulation import Conditions

AIM = 1.4  # of eager's goodput, where the fleet's goodput is highest
LEAST = 0.97  # of the better of eager and serial, anywhere


def _one(entry: tuple[int, Case], options: argparse.Namespace) -> report.Row:
    workers, case = entry
    conditions = _conditions(options, workers)
    outcome = run(case, conditions, options.warm, options.seconds)
    return row(case, workers, outcome)


def _conditions(options: argparse.Namespace, workers: int) -> Conditions:
    times = StepTimes.of(options.machine, options.prefill)
    return Conditions(workers, times, options.target_ms, options.kv_cells, options.patience)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[16])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.3, 0.5, 0.7, 0.9, 1.0, 1.1])
    parser.add_argument("--mixes", nargs="+", choices=MIXES, default=list(MIXES))
    parser.add_argument("--arrivals", nargs="+", choices=("poisson", "bursty"), default=["poisson"])
    parser.add_argument("--policies", nargs="+", choices=SIBLINGS, default=list(SIBLINGS)[:4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--warm", type=float, default=120.0, help="seconds before it is measured")
    parser.add_argument("--seconds", type=float, default=240.0, help="that are measured")
    parser.add_argument("--machine", default="qwen32b-fp16-4x3090")
    parser.add_argument("--target-ms", type=float, default=50.0, help="of a token, in the mean")
    parser.add_argument("--prefill", type=float, default=2000.0, help="tokens a second: assumed")
    parser.add_argument("--kv-cells", type=int, default=68_036, help="of a worker's pool")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds until a rejection")
    parser.add_argument("--jobs", type=int, default=1, help="cases that run at once")
    parser.add_argument("--out", type=Path, default=Path("build/sim"))
    return parser.parse_args()


def main() -> int:
    options = _options()
    begun = time.perf_counter()
    for name in options.mixes:
        one = _conditions(options, 1)
        capacity = saturation(MIXES[name], one.times, one.target_ms, one.kv_cells)
        mean = MIXES[name].mean()
        print(
            f"{name}: {mean.tokens} tokens an answer, {mean.critical} on the critical path, "
            f"{mean.in_paths / mean.tokens:.0%} in paths; a worker is saturated at "
            f"{capacity:.3f} answers/s, {capacity * mean.tokens:.0f} tokens/s",
            flush=True,
        )
    cases = [
        (workers, Case(mix, arrivals, load, policy, seed))
        for workers, mix, arrivals, load, policy, seed in itertools.product(
            options.workers,
            options.mixes,
            options.arrivals,
            options.loads,
            options.policies,
            options.seeds,
        )
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in pool.map(partial(_one, options=options), cases):
            rows.append(done)
            print(json.dumps(done), file=sys.stderr, flush=True)
    means = report.averaged(rows)
    text = report.table(means)
    print(text)
    (options.out / "rows.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (options.out / "table.md").write_text(text + "\n", "utf-8")
    pictures = report.plots(means, options.out)
    result = _result(means, options, pictures, time.perf_counter() - begun)
    print(json.dumps(result))
    return 0 if result["passed"] else 1


def _result(
    means: list[report.Row], options: argparse.Namespace, pictures: list[Path], wall_s: float
) -> report.Row:
    fork_heavy = report.near_saturation(means, "forkheavy")
    at_peak = report.at_peak(means, "forkheavy")
    aimed = fork_heavy if at_peak is None else at_peak
    least = report.least_of_best(means)
    auto = [mean for mean in means if mean["policy"] == "auto"]
    return {
        "goodput_ratio_eager_forkheavy": fork_heavy,
        "goodput_ratio_eager_traces": report.near_saturation(means, "traces"),
        "goodput_ratio_possible_forkheavy": report.possible(means, "forkheavy"),
        "goodput_ratio_eager_peak_forkheavy": at_peak,
        "peak_loads_forkheavy": report.peaks(means, "forkheavy"),
        "least_of_best": least[0] if least else None,
        "least_at": least[1] if least else None,
        "decision_p50_us": max((mean["decision_p50_us"] for mean in auto), default=None),
        "decision_p99_us": max((mean["decision_p99_us"] for mean in auto), default=None),
        "workers": options.workers,
        "loads": options.loads,
        "seeds": options.seeds,
        "target_ms": options.target_ms,
        "plots": [str(path) for path in pictures],
        "wall_s": round(wall_s, 1),
        "passed": (aimed is None or aimed >= AIM) and (least is None or least[0] >= LEAST),
    }


if __name__ == "__main__":
    sys.exit(main())
