"""Random token sequences of every dialect through reader, machine and interpreter.

Each example is checked as in `tests.unit.shared.random_language`; one that fails is told on
stderr with what it takes to play it again. One JSON line last; the status is 1 when any failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from dataclasses import asdict
from functools import partial

from tqdm import tqdm

from tests.unit.shared.random_language import Example, Tally
from tests.unit.shared.random_writers import DIALECTS

MOST_TOLD = 5  # failures of a portion
PORTION = 500


def measure(seed: int, numbers: range) -> dict[str, Tally]:
    """These examples, in turn for each dialect."""
    tallies = {dialect: Tally() for dialect in DIALECTS}
    for number in numbers:
        dialect = DIALECTS[number % len(DIALECTS)]
        example, tally = Example(dialect, f"{seed} {number}"), tallies[dialect]
        tally.examples += 1
        try:
            example.check(tally)
        except Exception:  # whatever the product raises is what is looked for
            tally.failures += 1
            if sum(tally.failures for tally in tallies.values()) <= MOST_TOLD:
                print(f"{example} failed:\n{traceback.format_exc()}", file=sys.stderr)
    return tallies


def measure_all(examples: int, seed: int, processes: int) -> dict[str, Tally]:
    """The first so many examples, in portions."""
    portions = [range(at, min(at + PORTION, examples)) for at in range(0, examples, PORTION)]
    totals = {dialect: Tally() for dialect in DIALECTS}
    with multiprocessing.Pool(processes) as pool, tqdm(total=examples, desc="examples") as bar:
        for tallies in pool.imap_unordered(partial(measure, seed), portions):
            for dialect, tally in tallies.items():
                totals[dialect] += tally
            bar.update(sum(tally.examples for tally in tallies.values()))
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    began = time.monotonic()
    tallies = measure_all(options.examples, options.seed, options.processes)
    failures = sum(tally.failures for tally in tallies.values())
    report = {
        "bench": "language",
        "examples": options.examples,
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 1),
        "tokens": sum(tally.tokens for tally in tallies.values()),
        "blocks": sum(tally.blocks for tally in tallies.values()),
        "failures": failures,
        "by_dialect": {dialect: asdict(tally) for dialect, tally in tallies.items()},
    }
    print(json.dumps(report))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
