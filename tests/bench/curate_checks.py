"""Precision and recall of every check on samples with planted faults. One JSON line last."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from tests.unit.curator.planted import labelled, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    samples = labelled(options.samples, options.seed)
    checks = {
        name: {
            "precision": round(found.precision, 4),
            "recall": round(found.recall, 4),
            "planted": found.hits + found.missed,
            "clean": found.clean,
        }
        for name, found in score(samples).items()
    }
    kinds = Counter(sample.fault or "clean" for sample in samples)
    print(json.dumps({"samples": len(samples), "kinds": kinds, "checks": checks}))


if __name__ == "__main__":
    main()
