"""Paths that run on one engine are joined on another: nothing is computed again, nothing changes.

Both are real, and so is the Redis between them. The last test kills it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from redis import Redis

from multiverse_shared.tree import Block, Context, Text, count
from multiverse_worker.contract import Logits, TierTotals
from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.redis_server import RedisServer
from tests.sglang.player import Player
from tests.unit.worker.client import Outcome, Seen, text

TOLERANCE = 1e-3
WITHIN_S = 30.0
HEADER = text(62)
Harm = Callable[[RedisServer], None]
_rounds = itertools.count()


@pytest.fixture
def away(elsewhere: SglangEngine) -> Iterator[Player]:
    player = Player(elsewhere)
    yield player
    player.settle()
    player.assert_nothing_is_held()


@dataclass(frozen=True)
class Round:
    """One answer: what it forks from, and what its paths have become."""

    before: Context
    block: Block
    leases: tuple[str, ...]

    @property
    def joined(self) -> Context:
        return (*self.before, self.block, HEADER)


def fork(home: Player, paths: Player) -> Round:
    """A plan at home, and its paths on `paths`: one has a block in it, one is long.

    Each round has a prompt of its own, so that nothing is left of another one.
    """
    number = next(_rounds)
    prompt = Text(tuple((at * 7 + number) % 90 for at in range(100)))
    plan = home.run(prompt, request="r", max_tokens=3)
    before = (prompt, Text(plan.ids))
    inner = Block(((text(*range(20)),), (text(*range(40, 55)),)))
    begins: list[Context] = [(text(60, 70),), (text(60, 71), inner, text(63)), (text(60, 72),)]
    leases, ends = [plan.finish.lease], list[Context]()
    for begin, tokens in zip(begins, (5, 20, 130), strict=True):
        shipped = {} if paths is home else {"ship_from": count(before)}
        ended = paths.run(
            *before, *begin, request="r", max_tokens=tokens, length_tail=(61,), **shipped
        )
        assert len(ended.ids) == tokens
        ends.append((*begin[:-1], Text((*begin[-1].ids, *ended.ids, 61))))  # type: ignore[union-attr]
        if paths is home:
            leases.append(ended.finish.lease)
        else:
            paths.release(ended.finish.lease)
    return Round(before, Block(tuple(ends)), tuple(leases))


@dataclass(frozen=True)
class Joined:
    """What a join said, and the logits of all it computed, by linear index."""

    outcome: Outcome
    rows: dict[int, Logits]
    tier: TierTotals  # of the join alone

    def differs_from(self, other: Joined) -> float:
        return max(
            float(np.abs(row - other.rows[index]).max())
            for index, row in self.rows.items()
            if index in other.rows
        )

    def assert_same(self, other: Joined) -> None:
        assert self.outcome.ids == other.outcome.ids
        assert self.differs_from(other) <= TOLERANCE


def join(home: Player, answer: Round, leases: tuple[str, ...] = (), salt: bytes = b"") -> Joined:
    before = home.engine.load().totals.tier
    seen = Seen.by(home.engine)
    outcome = home.run(*answer.joined, request="r", max_tokens=6, consumes=leases, salt=salt)
    home.engine.observer = None
    assert outcome.finish.error is None
    home.release(outcome.finish.lease)
    after = home.engine.load().totals.tier
    return Joined(outcome, seen.rows[outcome.start.branch], since(before, after))


def since(before: TierTotals, after: TierTotals) -> TierTotals:
    def less(name: str) -> tuple[tuple[str, int], ...]:
        old = dict(getattr(before, name))
        grown = {cause: n - old.get(cause, 0) for cause, n in getattr(after, name)}
        return tuple((cause, n) for cause, n in grown.items() if n)

    return TierTotals(
        fetched_tokens=after.fetched_tokens - before.fetched_tokens,
        recomputed=less("recomputed"),
        recomputed_tokens=less("recomputed_tokens"),
    )


def locally(home: Player, answer: Round) -> Joined:
    """The same join with all of it computed at home: for a tenant for whom nothing is held."""
    return join(home, answer, salt=b"nobody else")


def test_paths_of_another_engine_are_joined_without_computing_any_token_of_them(
    player: Player, away: Player
) -> None:
    answer = fork(player, away)
    joined = join(player, answer, answer.leases)
    held = count((*answer.before, answer.block))
    assert min(joined.rows) == held  # the header is the first that was computed
    assert joined.outcome.finish.reused_tokens == held
    assert joined.tier.fetched_tokens == count((answer.block,))
    assert joined.tier.recomputed == ()
    local = locally(player, answer)
    assert min(local.rows) == 0
    joined.assert_same(local)


def test_a_path_that_is_joined_where_it_ran_is_not_sent(player: Player) -> None:
    before = player.engine.load().totals.tier
    answer = fork(player, player)
    joined = join(player, answer, answer.leases)
    assert joined.tier == TierTotals()
    assert player.engine.load().totals.tier.stored_blocks == before.stored_blocks


def test_a_new_engine_begins_with_the_prompts_of_another(player: Player, away: Player) -> None:
    prompt = Text(tuple(at * 11 % 90 for at in range(200)))
    stored = away.engine.load().totals.tier.stored_blocks
    said = away.run(prompt, max_tokens=60)
    wait_for_stored(away, stored + 3)
    before = player.engine.load().totals.tier
    outcome = player.run(prompt, max_tokens=60)
    assert outcome.ids == said.ids
    assert outcome.finish.reused_tokens == 192
    assert player.engine.load().totals.tier.fetched_tokens - before.fetched_tokens == 192


def wait_for_stored(player: Player, blocks: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while player.engine.load().totals.tier.stored_blocks < blocks:
        assert time.monotonic() < deadline
        player.engine.tick()


def flip(redis: RedisServer) -> None:
    """One bit of each block is another."""
    with Redis(port=redis.port) as client:
        for key in client.scan_iter(b"{mv-tier}:*"):
            if len(key) == len(b"{mv-tier}:") + 32:
                block = client.get(key)
                client.set(key, block[:-1] + bytes([block[-1] ^ 4]), keepttl=True)


def lose(redis: RedisServer) -> None:
    with Redis(port=redis.port) as client:
        client.flushdb()


def pause(redis: RedisServer) -> None:
    with Redis(port=redis.port) as client:
        client.client_pause(2500)  # ms; longer than an engine waits


def kill(redis: RedisServer) -> None:
    redis.kill()


@pytest.mark.parametrize(
    ("harm", "cause"), [(flip, "corrupt"), (lose, "miss"), (pause, "slow"), (kill, "broken")]
)
def test_whatever_happens_to_the_tier_the_join_says_the_same_and_the_cause_is_counted(
    player: Player, away: Player, redis: RedisServer, harm: Harm, cause: str
) -> None:
    answer = fork(player, away)
    harm(redis)
    joined = join(player, answer, answer.leases)
    assert dict(joined.tier.recomputed_tokens) == {cause: count((answer.block,))}
    assert joined.tier.fetched_tokens == 0
    joined.assert_same(locally(player, answer))
