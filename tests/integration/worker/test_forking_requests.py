"""Forking requests side by side and under pressure say what each says alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from multiverse_worker.contract import BranchId, Ids, Logits
from tests.integration.worker.engines import OpenEngine, any_engine
from tests.integration.worker.reference import NEAR_TIE
from tests.unit.worker.answers import Answer, answers
from tests.unit.worker.client import AnyEngine, Client, assert_nothing_held

pytestmark = any_engine

REQUESTS = 6
SHAPE = {"plan": 8, "path": 12, "conclusion": 8, "vocab": 96}


def programs(engine: AnyEngine) -> list[Answer]:
    return answers(Client(engine, limit=3000), REQUESTS, **SHAPE)


def run_at_once(engine: AnyEngine) -> list[list[Ids]]:
    all_answers = programs(engine)
    client = all_answers[0].client
    said = client.drive(*(answer.run() for answer in all_answers))
    engine.drop_cached()
    assert_nothing_held(engine)
    return said


def largest_tree(engine: AnyEngine) -> int:
    return max(answer.tokens for answer in programs(engine))


@pytest.fixture
def alone(open_engine: OpenEngine) -> list[list[Ids]]:
    """Each request alone; no token of them is a near-tie, so that all must be met."""
    gaps: list[float] = []

    def note_gaps(_: BranchId, linear: int, rows: Logits) -> None:
        top = np.sort(rows, axis=-1)[:, -2:]
        gaps.extend((top[:, 1] - top[:, 0]).tolist())

    said: list[list[Ids]] = []
    for number in range(REQUESTS):
        engine = open_engine()
        engine.observer = note_gaps
        answer = programs(engine)[number]
        said += answer.client.drive(answer.run())
    assert min(gaps, default=1.0) > NEAR_TIE / 10
    return said


def test_requests_at_once_say_what_each_says_alone(
    open_engine: OpenEngine, alone: list[list[Ids]]
) -> None:
    assert run_at_once(open_engine(sequences=64)) == alone
    assert all(a != b for a, b in pairwise(alone))


def test_requests_that_fight_for_cells_say_what_each_says_alone(
    open_engine: OpenEngine, alone: list[list[Ids]]
) -> None:
    cells = int(1.3 * largest_tree(open_engine()))
    assert run_at_once(open_engine(kv_cells=cells, sequences=32, batch_tokens=32)) == alone


def test_requests_that_fight_for_sequences_say_what_each_says_alone(
    open_engine: OpenEngine, alone: list[list[Ids]]
) -> None:
    assert run_at_once(open_engine(sequences=4)) == alone
