"""Aborts at every stage, and a lost stream: neighbours are unharmed, and all memory comes back."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from multiverse_worker.contract import BranchId, FinishReason
from multiverse_worker.leases import LOST_STREAM_GRACE_S
from tests.conformance.oracle import Oracle
from tests.sglang.player import Player, assert_greedy
from tests.sglang.test_lessons import PROMPT, fork
from tests.unit.worker.client import text

LONG = text(*(at % 90 for at in range(700)))  # more than one chunk of prefill


def root_queued(player: Player) -> list[BranchId]:
    return [player.start(PROMPT, request="x", max_tokens=50)]


def root_running(player: Player) -> list[BranchId]:
    branch = player.start(PROMPT, request="x", max_tokens=500)
    while not player.said(branch):
        player.step()
    return [branch]


def between_chunks_of_a_prefill(player: Player) -> list[BranchId]:
    branch = player.start(LONG, request="x", max_tokens=500)
    before = player.steps_computed
    while player.steps_computed < before + 2:
        player.step()
    return [branch]


def _children(player: Player) -> list[BranchId]:
    plan = player.run(PROMPT, request="x", max_tokens=3)
    return [
        player.start(
            text(60, number),
            request="x",
            base_key=plan.finish.key,
            block=plan.start.branch,
            max_tokens=500,
        )
        for number in range(4)
    ]


def queued_children(player: Player) -> list[BranchId]:
    return _children(player)


def running_children(player: Player) -> list[BranchId]:
    branches = _children(player)
    while not all(player.said(branch) for branch in branches):
        player.step()
    return branches


def stitched_prefill(player: Player) -> list[BranchId]:
    before, block, leases = fork(player, "x")
    return [player.start(*before, block, LONG, request="x", max_tokens=9, consumes=leases)]


def a_join_that_computes_its_paths_again(player: Player) -> list[BranchId]:
    before, block, leases = fork(player, "x")
    player.engine.drop_cached()
    branch = player.start(*before, block, text(1), request="x", max_tokens=500, consumes=leases)
    for _ in range(2):
        player.step()
    return [branch]


def children_of_a_base(player: Player) -> list[BranchId]:
    before, block, leases = fork(player, "x")
    joined = player.run(*before, block, text(62), request="x", max_tokens=2, consumes=leases)
    branches = [
        player.start(text(60, n), request="x", base_key=joined.finish.key, max_tokens=500)
        for n in range(3)
    ]
    player.step()
    player.release(joined.finish.lease)
    return branches


def a_tail(player: Player) -> list[BranchId]:
    branch = player.start(PROMPT, request="x", max_tokens=1, length_tail=LONG.ids)
    while not player.said(branch):
        player.step()
    return [branch]


STAGES = [
    root_queued,
    root_running,
    between_chunks_of_a_prefill,
    queued_children,
    running_children,
    stitched_prefill,
    a_join_that_computes_its_paths_again,
    children_of_a_base,
    a_tail,
]


@pytest.mark.parametrize("reach", STAGES)
def test_an_abort_at_any_stage_harms_nobody(
    player: Player, oracle: Oracle, reach: Callable[[Player], list[BranchId]]
) -> None:
    neighbour = player.start(PROMPT, text(5), request="n", max_tokens=60)
    for branch in reach(player):
        player.engine.abort(branch)
        player.engine.abort(branch)  # twice is once
        assert player.outcome(branch).finish.reason is FinishReason.ABORTED
    assert_greedy(oracle, (PROMPT, text(5)), player.outcome(neighbour))
    again = player.run(PROMPT, text(6), request="y", max_tokens=3)
    assert_greedy(oracle, (PROMPT, text(6)), again)


def test_unknown_branches_and_leases_are_ignored(player: Player) -> None:
    player.engine.abort(BranchId(99, 99))
    player.release("none")
    assert len(player.run(PROMPT, request="r", max_tokens=2).ids) == 2


def test_a_lost_stream_ends_its_branches_at_once_and_its_leases_after_a_grace(
    player: Player, oracle: Oracle
) -> None:
    lost = Player(player.engine)
    held = lost.run(PROMPT, request="lost", max_tokens=3)
    running = lost.start(PROMPT, text(9), request="lost", max_tokens=900)
    while not lost.said(running):
        lost.step()
    player.engine.lose_stream(lost.stream)
    assert lost.outcome(running).finish.reason is FinishReason.ABORTED
    neighbour = player.run(PROMPT, text(7), request="n", max_tokens=3)
    assert_greedy(oracle, (PROMPT, text(7)), neighbour)
    for outcome in player.outcomes.values():
        player.release(outcome.finish.lease)
    assert held.finish.lease
    lost_at = time.monotonic()
    player.run(text(1), request="n")  # a report from now: the grace has not passed
    assert player.engine.load().leases == 2
    player.release(player.outcomes[max(player.outcomes)].finish.lease)
    while player.engine.load().leases:
        player.engine.tick()
        time.sleep(0.05)
        assert time.monotonic() - lost_at < LOST_STREAM_GRACE_S + 5
