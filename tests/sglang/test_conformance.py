"""Every logit of the engine against the oracle, in small; `make conformance` runs all of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.conformance.oracle import Oracle
from tests.conformance.suite import Case, compare
from tests.conformance.trees import random_tree, tree_of, vector_cases

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def cases(oracle: Oracle) -> list[Case]:
    rng = random.Random(1)
    shapes = [tree_of(case["context"]) for case in vector_cases(DATA / "layout_stitch.json")]
    shapes += [random_tree(rng, size) for size in (60, 150, 300)]
    return [Case.of(shape, oracle, rng) for shape in shapes]


async def test_every_logit_of_the_vectors_equals_the_oracle_with_24_at_once(
    engine: SglangEngine, cases: list[Case]
) -> None:
    seen = await compare(engine, cases, at_once=24)
    assert seen.max_diff <= TOLERANCE
    assert seen.compared >= 0.9 * sum(len(case.layout.ids) for case in cases)
    engine.drop_cached()
    assert engine.load().kv_cells_free == engine.load().kv_cells


async def test_nothing_changes_when_all_cached_blocks_are_dropped_between_fork_and_join(
    engine: SglangEngine, cases: list[Case]
) -> None:
    seen = await compare(engine, cases[::4], drop_before_join=True)
    assert seen.max_diff <= TOLERANCE


def test_a_wrong_layout_would_be_noticed(oracle: Oracle, cases: list[Case]) -> None:
    case = max(cases, key=lambda case: len(case.layout.ids))
    wrong = abs(oracle.wrong_positions(case.layout) - case.expected).max()
    causal = abs(oracle.causal(case.layout) - case.expected).max()
    assert min(wrong, causal) > 1
