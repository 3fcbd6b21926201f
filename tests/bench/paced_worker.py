"""A llama.cpp worker whose steps take as long as those of another machine.

Everything is computed as ever, and then a step waits until one of so many branches and tokens of
prefill would have ended there (`StepTimes`). Several such workers fit on a few cores without
slowing each other. Settings are those of `multiverse_worker`, and in the environment PACED_MACHINE
(of the table of step times) and PACED_PREFILL (tokens a second).
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TypeAlias

from multiverse_worker.__main__ import main
from multiverse_worker.contract import Logits
from multiverse_worker.engines.llamacpp.library import Library
from multiverse_worker.engines.sim.timing import StepTimes

Ids: TypeAlias = list[int]


def pace(times: StepTimes) -> None:
    """From now on steps of all libraries of this process take at least so long."""
    compute = Library.compute

    def paced(
        self: Library, ids: Ids, positions: Ids, sequences: Ids, wanted: list[bool]
    ) -> list[Logits]:
        begun = time.perf_counter()
        rows = compute(self, ids, positions, sequences, wanted)
        sizes = Counter(sequences).values()
        decoding = sum(size == 1 for size in sizes)
        ms = times.step_ms(decoding, len(ids) - decoding)
        time.sleep(max(0.0, begun + ms / 1000 - time.perf_counter()))
        return rows

    Library.compute = paced  # type: ignore[method-assign]


if __name__ == "__main__":
    pace(StepTimes.of(os.environ["PACED_MACHINE"], float(os.environ["PACED_PREFILL"])))
    sys.exit(main())
