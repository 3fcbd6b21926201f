"""Requests that fight for KV all end, with the tokens of a quiet run, and nothing stalls."""

from __future__ import annotations

import pytest

from multiverse_shared.errors import CapacityExceeded
from multiverse_shared.tree import Context, count
from multiverse_worker.contract import FinishReason, Ids
from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.sglang.conftest import KV_CELLS
from tests.sglang.player import Player
from tests.unit.worker.answers import Answer, answers
from tests.unit.worker.client import text

REQUESTS = 16
_quiet: list[list[Ids]] = []


def sixteen(player: Player) -> list[Answer]:
    """Requests of names that were never used, so they are the youngest."""
    made = answers(player, REQUESTS, vocab=90)
    for answer in made:
        answer.request = f"{player.stream}-{answer.request}"
    return made


@pytest.fixture
def quiet(player: Player) -> list[list[Ids]]:
    """What each says when there is room for all."""
    if not _quiet:
        _quiet.extend(player.drive(*(answer.run() for answer in sixteen(player))))
        player.engine.drop_cached()
    return _quiet


def occupy(player: Player, cells: int) -> list[Context]:
    """Lease all of the pool but `cells`, for a request that is older than all others."""
    left, held = KV_CELLS - cells, []
    while left:
        size = min(left, 500)
        context: Context = (text(len(held), *(at % 90 for at in range(size - 1))),)
        player.run(*context, request=f"{player.stream}-ballast")
        held.append(context)
        left -= size
    return held


def assert_still_held(player: Player, held: list[Context]) -> None:
    for context in held:
        outcome = player.run(*context, request="check")
        assert outcome.finish.reused_tokens == count(context)


def tree_tokens(player: Player) -> int:
    return max(answer.tokens for answer in sixteen(player))


@pytest.mark.parametrize("trees", [20, 2.5, 1.2])
def test_sixteen_forking_requests_finish_in_a_pool_of_a_few_trees(
    player: Player, quiet: list[list[Ids]], trees: float
) -> None:
    cells = int(trees * tree_tokens(player))
    held = occupy(player, cells)
    said = player.drive(*(answer.run() for answer in sixteen(player)))
    assert said == quiet
    if trees < 5:
        totals = player.engine.load().totals
        assert totals.revocations + totals.preemptions > 0
    assert_still_held(player, held)


def test_a_branch_that_does_not_fit_beside_running_ones_waits_and_then_runs(
    player: Player,
) -> None:
    cells = 200
    occupy(player, cells)
    first = player.start(text(3), request="a", max_tokens=120)
    while not player.said(first):
        player.step()
    second = player.start(text(4), request="b", max_tokens=120)
    assert len(player.outcome(first).ids) == 120
    assert len(player.outcome(second).ids) == 120


def test_the_oldest_takes_the_last_leases_rather_than_fail(player: Player) -> None:
    """Not even what older requests hold stays, when nothing else is left."""
    occupy(player, 100)
    outcome = player.run(text(3), request="large", max_tokens=250)
    assert outcome.finish.reason is FinishReason.LENGTH
    assert not isinstance(outcome.finish.error, CapacityExceeded)


def test_the_pool_of_the_session_is_as_large_as_it_was_asked_to_be(engine: SglangEngine) -> None:
    assert engine.info.kv_cells == KV_CELLS
