"""The simulator for tests: noise for tokens, no waiting, a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from multiverse_shared.tree import Context
from multiverse_worker.contract import BranchId, Ids, Start
from multiverse_worker.engines.sim.engine import SimEngine, SimOptions
from multiverse_worker.engines.sim.scripts import NoiseScripts
from multiverse_worker.engines.sim.timing import StepTimes
from tests.unit.worker.symbolic import VOCAB

TIMES = StepTimes(((1, 10.0), (2, 12.0), (4, 20.0)), prefill_tokens_per_s=1000)


def make_sim(
    *,
    kv_cells: int = 4096,
    sequences: int = 64,
    batch_tokens: int = 32,
    clock: Callable[[], float] = lambda: 0.0,
    speed: float = 0.0,
    **others: Any,
) -> SimEngine:
    options = SimOptions(kv_cells, sequences, batch_tokens, context_length=4096, speed=speed)
    return SimEngine(options, NoiseScripts(VOCAB), TIMES, "simulated", clock, **others)


@contextmanager
def sim_engine(**options: Any) -> Iterator[SimEngine]:
    engine = make_sim(**options)
    yield engine
    engine.close()


def expected_noise(_: Context, tokens: int) -> Ids:
    """What the simulator writes for the default sampling, whatever the context."""
    script = NoiseScripts(VOCAB).script(Start(BranchId(1, 1), "r", (), 1), ())
    return tuple(script(index) for index in range(tokens))
