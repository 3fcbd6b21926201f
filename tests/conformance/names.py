"""The suite for an engine without logits: what it says of every branch, and what it leaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from multiverse_shared.tree import Context
from multiverse_worker.contract import Engine
from tests.conformance.suite import Case, compare


def check_names(
    engine: Engine, shapes: Sequence[Context], at_once: int, seed: int
) -> dict[str, Any]:
    """Ends, sizes and content keys in all modes; AssertionError says what is wrong."""
    rng = random.Random(seed)
    cases = [Case.of(shape, None, rng, ids) for shape in shapes for ids in (None, 2)]
    modes: list[dict[str, Any]] = [{}, {"drop_before_join": True}, {"at_once": at_once}]
    branches = 0
    for mode in modes:
        with tqdm(total=len(cases), desc=str(mode or "alone")) as bar:
            seen = asyncio.run(compare(engine, cases, seed=seed, progress=bar.update, **mode))
        branches += seen.branches
    engine.drop_cached()
    load = engine.load()
    leaked = load.kv_cells - load.kv_cells_free + load.leases
    return {
        "engine": engine.info.engine,
        "cases": len(cases),
        "branches_compared": branches,
        "leaked": leaked,
        "passed": leaked == 0,
    }
