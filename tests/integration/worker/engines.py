"""Engines for tests: llama.cpp over the tiny model, and the simulator beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions
from multiverse_worker.engines.sim.engine import SimEngine, SimOptions
from multiverse_worker.engines.sim.scripts import NoiseScripts
from multiverse_worker.engines.sim.timing import StepTimes
from tests.unit.worker.client import AnyEngine

SMALL: dict[str, Any] = {"kv_cells": 1024, "sequences": 16, "batch_tokens": 64}
VOCAB = 96  # of the tiny model

# Put on what holds for any engine: each test runs once with each.
any_engine = pytest.mark.parametrize("engine_name", ["llamacpp", "sim"])


class OpenEngine(Protocol):
    def __call__(self, **options: Any) -> AnyEngine: ...


def make_engine(
    name: str, weights: Path, clock: Callable[[], float] = lambda: 0.0, **options: Any
) -> AnyEngine:
    make = {"llamacpp": make_llamacpp, "sim": make_sim}[name]
    return make(weights, clock, **options)


def make_llamacpp(
    weights: Path, clock: Callable[[], float] = lambda: 0.0, **options: Any
) -> LlamaCppEngine:
    """F32 cells and no flash attention, so that results are exact."""
    exact: dict[str, Any] = {"kv_type": "f32", "flash_attention": False, "threads": 1}
    sizes = LibraryOptions(weights, **{**SMALL, **exact, **options})
    return LlamaCppEngine(sizes, "tiny", clock, check=True)


def make_sim(_: Path, clock: Callable[[], float] = lambda: 0.0, **options: Any) -> SimEngine:
    """As large as the tiny model; without waiting unless a `speed` is given."""
    sizes = SimOptions(**{**SMALL, "context_length": 1024, **options})
    times = StepTimes.of("qwen32b-fp16-4x3090", prefill_tokens_per_s=2000)
    return SimEngine(sizes, NoiseScripts(VOCAB), times, "tiny", clock)
