"""`python -m tests.conformance.sglang_matrix`: the suite in every way that SGLang schedules.

Each variant is an engine of its own, one after another. The first runs all modes of the suite,
the others the busiest one. Options are those of `python -m tests.conformance`; one JSON line
last.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

VARIANTS: dict[str, dict[str, Any]] = {
    "overlap": {},
    "no_overlap": {"disable_overlap_schedule": True},
    "forced_retraction": {"retract": True},
    "chunks_of_8_mixed": {"chunked_prefill_size": 8, "enable_mixed_chunk": True},
    "chunks_of_8_mixed_forced_retraction_no_overlap": {
        "chunked_prefill_size": 8,
        "enable_mixed_chunk": True,
        "retract": True,
        "disable_overlap_schedule": True,
    },
}


def main() -> int:
    results: dict[str, Any] = {}
    for name, arguments in VARIANTS.items():
        command = [sys.executable, "-m", "tests.conformance", *sys.argv[1:], "--engine", "sglang"]
        command += ["--engine-arguments", json.dumps(arguments)]
        command += ["--modes", "at_once"] if arguments else []
        print(f"== {name}", file=sys.stderr)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        results[name] = json.loads(lines[-1]) if lines else {"passed": False}
    passed = all(result["passed"] for result in results.values())
    worst = max((result.get("max_diff", 0.0) for result in results.values()), default=0.0)
    print(json.dumps({"passed": passed, "max_diff": worst, "variants": results}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
