"""KV that travels: a join of paths that ran elsewhere is exact, and computes what did not come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.keys import after
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Text, count, normalise
from multiverse_worker.contract import TierTotals
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.tier.block import BlockForm
from multiverse_worker.tier.client import ClientOptions
from multiverse_worker.tier.pieces import pieces
from multiverse_worker.tier.tier import Tier
from multiverse_worker.tier.transfer import Prefixes, Transfer
from tests.unit.worker.client import Client, Outcome, Seen, assert_nothing_held, text
from tests.unit.worker.properties import examples
from tests.unit.worker.symbolic import (
    VOCAB,
    expected_greedy,
    expected_logits,
    library_of,
    symbolic_engine,
)
from tests.unit.worker.tier.memory_backend import MemoryBackend

WITHIN_S = 30.0
PROMPT = Text(tuple(n % VOCAB for n in range(100)))
LONG = Text(tuple(n * 7 % VOCAB for n in range(150)))
SHORT = Text(tuple(n * 5 % VOCAB for n in range(20)))
HEADER = text(40, 41)


@dataclass
class Replica:
    """One engine with a tier of its own; the blocks are common to all."""

    engine: LlamaCppEngine
    backend: MemoryBackend
    client: Client

    @property
    def tier(self) -> TierTotals:
        return self.engine.load().totals.tier

    def computed_by(self, run: Callable[[], Outcome]) -> tuple[Outcome, int]:
        before = library_of(self.engine).computed
        outcome = run()
        return outcome, library_of(self.engine).computed - before


class Fleet:
    """Replicas over one set of blocks."""

    def __init__(self, ending: ExitStack) -> None:
        self._ending = ending
        self.blocks: dict[bytes, bytes] = {}

    def replica(
        self,
        *,
        timeout_s: float = WITHIN_S,
        prefixes: Prefixes = "never",
        always: bool = True,
        kv_cells: int = 4096,
    ) -> Replica:
        made: list[MemoryBackend] = []

        def opened() -> MemoryBackend:
            made.append(MemoryBackend(self.blocks))
            return made[0]

        tier = Tier(opened, BlockForm(), ClientOptions(timeout_s))
        transfer = Transfer(tier, always, prefixes)
        engine = self._ending.enter_context(symbolic_engine(kv_cells=kv_cells, transfer=transfer))
        return Replica(engine, made[0], Client(engine, limit=100_000))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with fleets() as made:
        yield made


@contextmanager
def fleets() -> Iterator[Fleet]:
    with ExitStack() as ending:
        yield Fleet(ending)


def ran_on(away: Replica, before: Context, *paths: Context, salt: bytes = b"") -> None:
    """Each path is brought into the cache there, and shipped."""
    for path in paths:
        outcome = away.client.run(
            *before, *path, ship_from=next_position(normalise(before)), salt=salt
        )
        away.client.release(outcome.finish.lease)


def join(home: Replica, before: Context, *paths: Context, salt: bytes = b"") -> Outcome:
    """At home, where the prefix is resident; exact in every logit that is computed."""
    seen = Seen.by(home.engine)
    plan = home.client.run(*before, salt=salt)
    context = (*before, Block(paths), HEADER)
    outcome = home.client.run(*context, consumes=(plan.finish.lease,), salt=salt)
    assert outcome.finish.lease, outcome.finish.error
    assert seen.difference(outcome.start.branch, expected_logits(context)) == 0
    return outcome


def test_a_join_of_remote_paths_computes_nothing(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,), (SHORT,))
    own = home.client.run(PROMPT, text(9, 8, 7))
    paths = ((LONG,), (text(9, 8, 7),), (SHORT,))
    outcome, computed = home.computed_by(lambda: join(home, (PROMPT,), *paths))
    assert own.finish.lease
    assert computed == len(HEADER.ids)
    assert outcome.finish.reused_tokens == count((PROMPT, LONG, SHORT)) + 3
    assert outcome.finish.fetched_tokens == count((LONG, SHORT))
    assert home.tier.fetched_tokens == count((LONG, SHORT))
    assert home.tier.recomputed == ()
    assert away.tier.stored_blocks == home.tier.fetched_blocks == 4


def test_a_path_that_goes_on_from_a_base_at_home_travels_when_the_join_leaves(
    fleet: Fleet,
) -> None:
    before, after_it = fleet.replica(), fleet.replica()
    plan = before.client.run(PROMPT)
    assert plan.finish.lease
    path = before.client.run(LONG, base_key=plan.finish.key, ship_from=count((PROMPT,)))
    assert path.finish.lease, path.finish.error
    ran_on(after_it, (PROMPT,), (SHORT,))
    _, computed = after_it.computed_by(lambda: join(after_it, (PROMPT,), (LONG,), (SHORT,)))
    assert computed == len(HEADER.ids)
    assert after_it.tier.fetched_tokens == count((LONG,))


def test_what_a_path_writes_travels_too(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    sampled = expected_greedy((PROMPT, SHORT), 70)
    outcome = away.client.run(PROMPT, SHORT, max_tokens=70, length_tail=(3, 4), ship_from=100)
    assert outcome.ids == sampled
    path = (Text((*SHORT.ids, *sampled, 3, 4)),)
    _, computed = home.computed_by(lambda: join(home, (PROMPT,), path))
    assert computed == count((PROMPT, HEADER))


def test_blocks_inside_a_remote_path_travel_with_it(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    inner = Block(((LONG,), (SHORT, Block(((text(1, 2),), (text(3),))), text(4))))
    path = (text(11, 12), inner, text(13, 14))
    ran_on(away, (PROMPT,), path)
    outcome, computed = home.computed_by(lambda: join(home, (PROMPT,), path, (SHORT,)))
    assert computed == count((PROMPT, SHORT, HEADER))
    assert outcome.finish.reused_tokens == count((PROMPT, *path))
    assert outcome.finish.fetched_tokens == count(path)


def test_pieces_that_are_missing_are_computed_between_those_that_came(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    cut = list(pieces((LONG,), after((PROMPT,), home.engine.cache.root(b""))))
    assert [len(piece.places) for piece in cut] == [28, 64, 58]
    del fleet.blocks[cut[1].name]
    _, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,)))
    assert computed == count((PROMPT, HEADER)) + 64
    assert home.tier.recomputed == (("miss", 1),)
    assert home.tier.recomputed_tokens == (("miss", 64),)


def spoil(home: Replica) -> None:
    home.backend.spoil = lambda block: block[:-1] + bytes([block[-1] ^ 4])


def die(home: Replica) -> None:
    home.backend.dead = True


def stall(home: Replica) -> None:
    home.backend.gate.clear()


def refuse(home: Replica) -> None:
    library_of(home.engine).refuses = True


def lose(home: Replica) -> None:
    home.backend.blocks.clear()


@pytest.mark.parametrize(
    ("harm", "cause"),
    [(spoil, "corrupt"), (die, "broken"), (stall, "slow"), (refuse, "refused"), (lose, "miss")],
)
def test_whatever_happens_to_the_tier_the_join_is_exact(
    fleet: Fleet, harm: Callable[[Replica], None], cause: str
) -> None:
    home, away = fleet.replica(timeout_s=0.2), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,), (SHORT, Block(((SHORT,), (text(1),))), text(2)))
    harm(home)
    paths = ((LONG,), (SHORT, Block(((SHORT,), (text(1),))), text(2)))
    _, computed = home.computed_by(lambda: join(home, (PROMPT,), *paths))
    assert computed == count((PROMPT, Block(paths), HEADER))
    assert cause in dict(home.tier.recomputed)
    recomputed = sum(tokens for _, tokens in home.tier.recomputed_tokens)
    assert recomputed == count((Block(paths),))


def test_without_a_tier_the_join_is_exact_and_says_why_it_computes() -> None:
    with symbolic_engine() as engine:
        home = Replica(engine, MemoryBackend(), Client(engine))
        join(home, (PROMPT,), (LONG,))
        assert home.tier.recomputed_tokens == (("off", count((LONG,))),)


def test_a_branch_ends_when_its_blocks_are_kept_or_given_up(fleet: Fleet) -> None:
    away = fleet.replica(timeout_s=0.2)
    away.backend.gate.clear()
    branch = away.client.start(PROMPT, SHORT, ship_from=100)
    for _ in range(10):
        away.client.step()
    assert branch not in away.client.outcomes
    assert away.client.outcome(branch).finish.lease
    assert away.tier.unstored == (("slow", 1),)


def test_tenants_find_nothing_of_each_other_and_their_own_again(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,), salt=b"one")
    theirs, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,), salt=b"two"))
    assert theirs.finish.reused_tokens == count((PROMPT,))
    assert theirs.finish.fetched_tokens == 0
    assert computed == count((PROMPT, LONG, HEADER))
    assert home.tier.fetched_blocks == 0
    own, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,), salt=b"one"))
    assert own.finish.reused_tokens == count((PROMPT, LONG))
    assert computed == count((PROMPT, HEADER))  # not even the prompt is shared
    assert home.tier.fetched_blocks == 3


def test_a_new_replica_starts_with_the_prompts_of_the_others(fleet: Fleet) -> None:
    prompt = Text(tuple(n * 11 % VOCAB for n in range(200)))
    first = fleet.replica(prefixes="always")
    first.client.run(prompt, max_tokens=8)
    new = fleet.replica()
    seen = Seen.by(new.engine)
    outcome, computed = new.computed_by(lambda: new.client.run(prompt, max_tokens=2))
    assert outcome.finish.reused_tokens == outcome.finish.fetched_tokens == 192
    assert computed == 8 + 2
    assert seen.difference(outcome.start.branch, expected_logits((prompt, Text(outcome.ids)))) == 0
    assert new.tier.fetched_tokens == 192


def test_a_prompt_goes_to_the_tier_when_it_is_met_again(fleet: Fleet) -> None:
    replica = fleet.replica(prefixes="reused")
    replica.client.run(LONG, max_tokens=8)
    assert replica.tier.stored_blocks == 0
    replica.client.run(Text((*LONG.ids, 1, 2)), max_tokens=8)
    deadline = time.monotonic() + WITHIN_S
    while replica.tier.stored_blocks < 2:
        assert time.monotonic() < deadline
    replica.client.run(Text((*LONG.ids, 3)), max_tokens=8)
    assert replica.tier.stored_blocks == 2


def test_what_takes_longer_to_fetch_is_computed_until_that_is_forgotten(fleet: Fleet) -> None:
    home, away = fleet.replica(always=False), fleet.replica()
    ran_on(away, (PROMPT,), (SHORT,))
    orders = home.engine._admission._orders
    orders.computing.add(100, 0.01)
    orders.fetching.add(100, 1.0)
    tried = 0
    while home.tier.fetched_blocks == 0:
        tried += 1
        assert tried < 200
        join(home, (PROMPT,), (SHORT,))
        home.engine.drop_cached()
    assert dict(home.tier.recomputed) == {"cheaper": tried - 1}
    assert tried > 5


def test_what_comes_makes_room_in_a_small_pool(fleet: Fleet) -> None:
    home, away = fleet.replica(kv_cells=300), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    home.client.run(Text((5,) * 90))
    _, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,)))
    assert computed == count((PROMPT, HEADER))
    assert home.engine.load().totals.evictions == 1


def test_a_branch_that_is_given_up_while_it_waits_holds_nothing(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    home.backend.gate.clear()
    branch = home.client.start(PROMPT, Block(((LONG,),)), HEADER)
    while not home.backend.asked:
        home.client.step()
    home.engine.abort(branch)
    home.client.settle()
    home.engine.drop_cached()
    assert_nothing_held(home.engine)


@st.composite
def contexts(draw: st.DrawFn, depth: int = 0) -> Context:
    """Texts of 1 to 80 tokens, and blocks at most two deep inside a path."""
    items: list[Text | Block] = []
    for _ in range(draw(st.integers(1, 2))):
        if depth < 2 and items and draw(st.booleans()):
            paths = tuple(draw(contexts(depth + 1)) for _ in range(draw(st.integers(1, 2))))
            items.append(Block(paths))
        else:
            ids = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=80)
            items.append(Text(tuple(draw(ids))))
    return tuple(items)


@examples(15)
@given(contexts(depth=1), st.lists(contexts(), min_size=1, max_size=3, unique=True))
def test_any_paths_join_exactly_without_being_computed_again(
    before: Context, paths: list[Context]
) -> None:
    with fleets() as fleet:
        home, away = fleet.replica(), fleet.replica()
        ran_on(away, before, *paths)
        home.client.run(*before)
        recomputed = home.tier.recomputed  # blocks of the prefix never ran elsewhere
        _, computed = home.computed_by(lambda: join(home, before, *paths))
        assert computed == len(HEADER.ids)
        assert home.tier.recomputed == recomputed
        for replica in (home, away):
            for lease in replica.engine.roster.leases:
                replica.engine.release(lease.id, lease.request.stream)
            replica.engine.drop_cached()
            assert_nothing_held(replica.engine)
