"""KV that travels between SGLang engines: a join computes only what did not come, exactly.

Over a toy scheduler, which reads back every row that is leased, and whose tokens are a hash of
all that they see.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.keys import KeyChain, after
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Text, count, normalise
from multiverse_worker.contract import BranchId, Finish, Ids, Start, TierTotals
from multiverse_worker.tier.block import BlockForm
from multiverse_worker.tier.client import ClientOptions
from multiverse_worker.tier.pieces import text_pieces
from multiverse_worker.tier.tier import Tier
from multiverse_worker.tier.transfer import Prefixes, Transfer
from tests.e2e.load import eventually
from tests.unit.worker.properties import examples
from tests.unit.worker.test_branches import TREE, requests_of, run_all
from tests.unit.worker.tier.memory_backend import MemoryBackend
from tests.unit.worker.toy_scheduler import ToyScheduler

WITHIN_S = 30.0
PROMPT = Text(tuple(n % 50 for n in range(100)))
LONG = Text(tuple(n * 7 % 50 for n in range(150)))
SHORT = Text(tuple((n * 3 + 1) % 50 for n in range(20)))
HEADER = Text((40, 41))
NESTED = (SHORT, Block(((SHORT,), (Text((49,)),))), Text((2,)))


@dataclass
class Replica:
    """One engine with a tier of its own; the blocks are common to all."""

    scheduler: ToyScheduler
    backend: MemoryBackend
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def tier(self) -> TierTotals:
        return self.scheduler.branches.traffic.orders.counts.totals

    def start(self, *context: Text | Block, **fields: object) -> BranchId:
        fields.setdefault("max_tokens", 0)
        branch = BranchId(1, next(self.numbers))
        self.scheduler.start(Start(branch, f"r{branch.number}", context, **fields))  # type: ignore[arg-type]
        return branch

    def run(self, *context: Text | Block, **fields: object) -> tuple[Ids, Finish]:
        branch = self.start(*context, **fields)
        finish = self.scheduler.finish(branch)
        assert finish.error is None, finish.error
        return tuple(self.scheduler.said[branch]), finish

    def computed_by(self, run: Callable[[], tuple[Ids, Finish]]) -> tuple[Ids, Finish, int]:
        before = self.scheduler.computed
        said, finish = run()
        return said, finish, self.scheduler.computed - before

    def open_gate(self) -> None:
        tier = self.scheduler.branches.traffic.tier
        assert tier
        tier._loop.call_soon_threadsafe(self.backend.gate.set)

    def assert_nothing_is_held(self) -> None:
        self.scheduler.drop_all()
        assert len(self.scheduler.free) == self.scheduler.info.kv_cells
        assert not self.scheduler.branches.moving


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
        cells: int = 4096,
        in_flight: int = 64 << 20,
    ) -> Replica:
        made: list[MemoryBackend] = []

        def opened() -> MemoryBackend:
            made.append(MemoryBackend(self.blocks))
            return made[0]

        tier = Tier(opened, BlockForm(), ClientOptions(timeout_s, in_flight))
        self._ending.callback(tier.close)
        transfer = Transfer(tier, always=True, prefixes=prefixes)
        return Replica(ToyScheduler(cells, transfer=transfer), made[0])


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
        away.run(*before, *path, ship_from=next_position(normalise(before)), salt=salt)


def join(home: Replica, before: Context, *paths: Context, salt: bytes = b"") -> tuple[Ids, Finish]:
    """At home, where the prefix is resident; it says what an engine says that is all alone."""
    _, plan = home.run(*before, salt=salt)
    context = (*before, Block(paths), HEADER)
    said, finish = home.run(*context, max_tokens=4, consumes=(plan.lease,), salt=salt)
    assert said == Replica(ToyScheduler(4096), MemoryBackend()).run(*context, max_tokens=4)[0]
    return said, finish


DECODED = 4  # all but the first step of a join compute one token, and the last one ends it


def test_a_join_of_remote_paths_computes_nothing(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,), (SHORT,))
    home.run(PROMPT, Text((9, 8, 7)))
    paths = ((LONG,), (Text((9, 8, 7)),), (SHORT,))
    _, finish, computed = home.computed_by(lambda: join(home, (PROMPT,), *paths))
    assert computed == len(HEADER.ids) + DECODED
    assert finish.reused_tokens == count((PROMPT, LONG, SHORT)) + 3
    assert home.tier.fetched_tokens == count((LONG, SHORT))
    assert home.tier.recomputed == ()
    assert away.tier.stored_blocks == home.tier.fetched_blocks == 4
    home.assert_nothing_is_held()


def test_what_a_path_writes_travels_too_also_while_it_decodes(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    branch = away.start(PROMPT, SHORT, max_tokens=200, length_tail=(3, 4), ship_from=100)
    while not away.tier.stored_blocks:
        away.scheduler.step()
    assert branch not in away.scheduler.finishes
    away.scheduler.finish(branch)
    path = (Text((*SHORT.ids, *away.scheduler.said[branch], 3, 4)),)
    _, _, computed = home.computed_by(lambda: join(home, (PROMPT,), path))
    assert computed == count((PROMPT, HEADER)) + DECODED


def test_blocks_inside_a_remote_path_travel_with_it(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    inner = Block(((LONG,), (SHORT, Block(((Text((1, 2)),), (Text((3,)),))), Text((4,)))))
    path = (Text((11, 12)), inner, Text((13, 14)))
    ran_on(away, (PROMPT,), path)
    _, finish, computed = home.computed_by(lambda: join(home, (PROMPT,), path, (SHORT,)))
    assert computed == count((PROMPT, SHORT, HEADER)) + DECODED
    assert finish.reused_tokens == count((PROMPT, *path))


def test_a_path_at_the_positions_that_a_checkpoint_was_trained_with_travels(fleet: Fleet) -> None:
    """Paths and what follows them begin one position early."""
    home, away = fleet.replica(), fleet.replica()
    path = (Text(LONG.ids, start=99), Block(((SHORT,), (HEADER,)), path_offset=-1, join_offset=-1))
    away.run(PROMPT, *path, Text((5, 6)), ship_from=100)
    block = Block(((LONG, path[1], Text((5, 6))),), path_offset=-1, join_offset=-1)
    home.run(PROMPT)
    _, _, computed = home.computed_by(lambda: home.run(PROMPT, block, HEADER))
    assert computed == len(HEADER.ids)


def test_pieces_that_are_missing_are_computed_between_those_that_came(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    root = KeyChain.root(home.scheduler.info.namespace)
    cut = list(text_pieces((LONG,), after((PROMPT,), root)))
    assert [len(piece.ids) for piece in cut] == [28, 64, 58]
    del fleet.blocks[cut[1].name]
    _, _, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,)))
    assert computed == count((PROMPT, HEADER)) + 64 + DECODED
    assert home.tier.recomputed == (("miss", 1),)
    assert home.tier.recomputed_tokens == (("miss", 64),)


def spoil(home: Replica) -> None:
    home.backend.spoil = lambda block: block[:-1] + bytes([block[-1] ^ 4])


def die(home: Replica) -> None:
    home.backend.dead = True


def stall(home: Replica) -> None:
    home.backend.gate.clear()


def refuse(home: Replica) -> None:
    home.scheduler.slots.refuses = True


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
    ran_on(away, (PROMPT,), (LONG,), NESTED)
    harm(home)
    _, _, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,), NESTED))
    assert computed == count((PROMPT, LONG, *NESTED, HEADER)) + DECODED
    assert cause in dict(home.tier.recomputed)
    assert sum(tokens for _, tokens in home.tier.recomputed_tokens) == count((LONG, *NESTED))
    home.assert_nothing_is_held()


def test_without_a_tier_the_join_is_exact_and_says_why_it_computes() -> None:
    home = Replica(ToyScheduler(4096), MemoryBackend())
    join(home, (PROMPT,), (LONG,))
    assert home.tier.recomputed_tokens == (("off", count((LONG,))),)


def test_a_branch_ends_when_its_blocks_are_kept_or_given_up(fleet: Fleet) -> None:
    away = fleet.replica(timeout_s=0.2)
    away.backend.gate.clear()
    branch = away.start(PROMPT, SHORT, ship_from=100)
    while not away.backend.put_names:
        away.scheduler.step()
    assert branch not in away.scheduler.finishes
    away.scheduler.finish(branch)
    assert away.tier.unstored == (("slow", 1),)
    away.assert_nothing_is_held()


def test_a_path_larger_than_what_may_be_on_its_way_goes_out_whole(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica(in_flight=64 * 16)
    ran_on(away, (PROMPT,), (LONG,))
    assert away.tier.unstored == ()
    join(home, (PROMPT,), (LONG,))
    assert home.tier.fetched_tokens == count((LONG,))


def test_tenants_find_nothing_of_each_other(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,), salt=b"one")
    _, finish, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,), salt=b"two"))
    assert computed == count((PROMPT, LONG, HEADER)) + DECODED
    assert finish.reused_tokens == count((PROMPT,))
    assert home.tier.fetched_blocks == 0


@pytest.mark.parametrize("policy", ["always", "reused"])
def test_a_new_replica_starts_with_the_prompts_of_the_others(
    fleet: Fleet, policy: Prefixes
) -> None:
    prompt = Text(tuple(n * 11 % 50 for n in range(200)))
    first = fleet.replica(prefixes=policy)
    first.run(prompt, max_tokens=8)
    if policy == "always":
        eventually(lambda: first.tier.stored_blocks == 3, "a prompt that is stored")
    first.run(Text((*prompt.ids, 1, 2)), max_tokens=8)
    eventually(lambda: first.tier.stored_blocks == 3, "a prompt that is stored")
    new = fleet.replica()
    _, finish, computed = new.computed_by(lambda: new.run(prompt, max_tokens=2))
    assert finish.reused_tokens == 192
    assert computed == 8 + 2
    assert new.tier.fetched_tokens == 192


def test_what_comes_makes_room_in_a_small_pool(fleet: Fleet) -> None:
    home, away = fleet.replica(cells=300), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    _, other = home.run(Text((5,) * 90))
    home.scheduler.branches.roster.release(other.lease, 1)
    _, _, computed = home.computed_by(lambda: join(home, (PROMPT,), (LONG,)))
    assert computed == count((PROMPT, HEADER)) + DECODED
    home.assert_nothing_is_held()


def test_what_comes_takes_leases_of_younger_requests_only(fleet: Fleet) -> None:
    home, away = fleet.replica(cells=300), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    home.run(PROMPT)
    home.backend.gate.clear()
    joining = home.start(PROMPT, Block(((LONG,),)), HEADER)
    while not home.backend.asked:
        home.scheduler.step()
    home.run(Text((5,) * 60))  # leased, and younger; too short to be asked for
    home.open_gate()
    home.scheduler.finish(joining)
    assert home.scheduler.branches.pressure.revoked == 1
    assert home.tier.recomputed == ()


def test_requests_that_fight_for_memory_end_though_joins_wait_for_the_tier(
    fleet: Fleet,
) -> None:
    cells = TREE + 8
    quiet, crowded = ToyScheduler(5000, width=64), fleet.replica(cells=cells).scheduler
    said = []
    for scheduler in (quiet, crowded):
        requests = requests_of(scheduler, 6)
        run_all(scheduler, requests)
        said.append([request.said for request in requests])
    assert said[0] == said[1]
    pressure = crowded.branches.pressure
    assert pressure.revoked + pressure.parked > 0
    assert "miss" in dict(crowded.branches.traffic.orders.counts.recomputed)


def test_a_branch_that_is_given_up_while_it_waits_holds_nothing(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    home.backend.gate.clear()
    branch = home.start(PROMPT, Block(((LONG,),)), HEADER)
    while not home.backend.asked:
        home.scheduler.step()
    home.scheduler.branches.abort(branch)
    home.scheduler.step()
    home.assert_nothing_is_held()


def test_a_reset_begins_branches_again_that_wait_for_the_tier(fleet: Fleet) -> None:
    home, away = fleet.replica(), fleet.replica()
    ran_on(away, (PROMPT,), (LONG,))
    home.backend.gate.clear()
    branch = home.start(PROMPT, Block(((LONG,),)), HEADER)
    while not home.backend.asked:
        home.scheduler.step()
    home.scheduler.branches.reset()
    assert home.scheduler.tree.locked == 0
    home.open_gate()
    assert home.scheduler.finish(branch).error is None
    home.assert_nothing_is_held()


@st.composite
def contexts(draw: st.DrawFn, depth: int = 0) -> Context:
    """Texts of 1 to 80 tokens, and blocks at most two deep inside a path."""
    items: list[Text | Block] = []
    for _ in range(draw(st.integers(1, 2))):
        if depth < 2 and items and draw(st.booleans()):
            paths = tuple(draw(contexts(depth + 1)) for _ in range(draw(st.integers(1, 2))))
            items.append(Block(paths))
        else:
            ids = st.lists(st.integers(0, 49), min_size=1, max_size=80)
            items.append(Text(tuple(draw(ids))))
    return tuple(items)


@examples(25)
@given(contexts(depth=1), st.lists(contexts(), min_size=1, max_size=3, unique=True))
def test_any_paths_join_exactly_without_being_computed_again(
    before: Context, paths: list[Context]
) -> None:
    with fleets() as fleet:
        home, away = fleet.replica(), fleet.replica()
        ran_on(away, before, *paths)
        home.run(*before)
        recomputed = home.tier.recomputed  # blocks of the prefix never ran elsewhere
        _, _, computed = home.computed_by(lambda: join(home, before, *paths))
        assert computed == len(HEADER.ids) + DECODED
        assert home.tier.recomputed == recomputed
        home.assert_nothing_is_held()
        away.assert_nothing_is_held()
