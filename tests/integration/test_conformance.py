"""The conformance suite in small: every logit of the engine against the oracle.

The simulator has no logits; it takes the same trees, and what it says of them is checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from multiverse_shared.tree import Text, count
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from tests.conformance.engines import llamacpp, sim
from tests.conformance.oracle import Oracle, lay_out, random_model, rounded_model
from tests.conformance.suite import Case, compare
from tests.conformance.trees import random_tree, tree_of, vector_cases
from tests.unit.worker.client import AnyEngine

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 1e-3

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return random_model(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(model)


@pytest.fixture(scope="module")
def cases(oracle: Oracle) -> list[Case]:
    rng = random.Random(1)
    shapes = [tree_of(case["context"]) for case in vector_cases(DATA / "layout_stitch.json")]
    shapes += [random_tree(rng, size) for size in (60, 150, 300, 500)]
    different = [Case.of(shape, oracle, rng) for shape in shapes]
    return different + [Case.of(shape, oracle, rng, different_ids=2) for shape in shapes[:40]]


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCppEngine]:
    engine = llamacpp(model, tmp_path_factory.mktemp("gguf"), threads=1)
    assert isinstance(engine, LlamaCppEngine)
    yield engine
    engine.close()


def assert_nothing_is_held(engine: AnyEngine) -> None:
    engine.drop_cached()
    load = engine.load()
    assert (load.running, load.waiting, load.leases) == (0, 0, 0)
    assert load.kv_cells_free == load.kv_cells
    engine.cache.check()


async def test_every_logit_equals_the_oracle_and_the_books_add_up(
    engine: LlamaCppEngine, cases: list[Case]
) -> None:
    seen = await compare(engine, cases, after_step=engine.cache.check)
    assert seen.max_diff <= TOLERANCE
    assert seen.compared >= sum(len(case.layout.ids) for case in cases)
    assert_nothing_is_held(engine)


async def test_nothing_changes_when_all_cached_blocks_are_dropped_between_fork_and_join(
    engine: LlamaCppEngine, cases: list[Case]
) -> None:
    seen = await compare(engine, cases, drop_before_join=True)
    assert seen.max_diff <= TOLERANCE
    assert_nothing_is_held(engine)


async def test_nothing_changes_with_24_requests_at_once(
    engine: LlamaCppEngine, cases: list[Case]
) -> None:
    seen = await compare(engine, cases, at_once=24)
    assert seen.max_diff <= TOLERANCE
    assert_nothing_is_held(engine)


@pytest.mark.parametrize(
    "mode", [{}, {"drop_before_join": True}, {"at_once": 24}], ids=["alone", "dropped", "24"]
)
async def test_the_simulator_takes_every_tree_and_names_it_right(mode: dict[str, Any]) -> None:
    engine, rng = sim(), random.Random(2)

    def account() -> None:
        assert sum(engine.account()) == engine.info.kv_cells

    shapes = [tree_of(case["context"]) for case in vector_cases(DATA / "layout_stitch.json")]
    shapes += [random_tree(rng, size) for size in (60, 150, 300, 500)]
    cases = [Case.of(shape, None, rng, ids) for shape in shapes for ids in (None, 2)]
    seen = await compare(engine, cases, after_step=account, **mode)
    assert seen.branches >= len(cases)
    assert_nothing_is_held(engine)


def test_the_oracle_itself_lays_out_the_vectors_as_they_say() -> None:
    for case in vector_cases(DATA / "layout_stitch.json"):
        layout = lay_out(tree_of(case["context"]))
        assert layout.positions == case["positions"], case["name"]
        rows = ["".join("01"[int(seen)] for seen in row) for row in layout.visible]
        assert rows == case["visible"], case["name"]


def test_a_wrong_layout_would_be_noticed(oracle: Oracle, cases: list[Case]) -> None:
    case = max(cases, key=lambda case: len(case.layout.ids))
    wrong = abs(oracle.wrong_positions(case.layout) - case.expected).max()
    causal = abs(oracle.causal(case.layout) - case.expected).max()
    assert min(wrong, causal) > 1


# -- other architectures, and the served configuration ---------------------------------------------


@contextmanager
def opened(model: Path, scratch: Path, configuration: str) -> Iterator[LlamaCppEngine]:
    engine = llamacpp(model, scratch, threads=1, configuration=configuration)
    assert isinstance(engine, LlamaCppEngine)
    try:
        yield engine
    finally:
        engine.close()


def few_trees(oracle: Oracle) -> list[Case]:
    rng = random.Random(2)
    shapes = [tree_of(case["context"]) for case in vector_cases(DATA / "layout_stitch.json")[::4]]
    shapes += [random_tree(rng, size) for size in (100, 300)]
    return [Case.of(shape, oracle, rng) for shape in shapes]


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
async def test_every_logit_of_other_architectures_equals_the_oracle(
    architecture: str, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "random", architecture)
    cases = few_trees(Oracle(model))
    with opened(model, tmp_path, "exact") as engine:
        seen = await compare(engine, cases, at_once=8)
    assert seen.max_diff <= TOLERANCE


async def test_as_served_trees_are_as_near_as_plain_sequences(model: Path, tmp_path: Path) -> None:
    rounded = rounded_model(model, tmp_path / "rounded")
    oracle, rng = Oracle(rounded), random.Random(3)
    trees = few_trees(oracle)
    plain = [Case.of((Text((0,) * count(case.tree)),), oracle, rng) for case in trees]
    with opened(rounded, tmp_path, "served") as engine:
        noise = (await compare(engine, plain, at_once=8)).max_diff
        seen = (await compare(engine, trees, at_once=8)).max_diff
    assert TOLERANCE < noise < 1  # it rounds, and far less than a wrong layout would change
    assert seen <= 2 * noise
