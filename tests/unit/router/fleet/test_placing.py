"""Where and when branches start, as the placement policies say."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.answers import _aimed
from multiverse_router.fleet.link import new_branch
from multiverse_router.fleet.session import Session
from multiverse_router.placement.policy import Fork, Placement, Policy, SiblingPolicy
from multiverse_router.placement.prefix_index import Prefix, prefix_keys
from multiverse_router.placement.view import Fleet, Progress
from multiverse_shared.api_keys import Allowance
from multiverse_shared.tree import Text
from tests.unit.router.asgi import until
from tests.unit.router.fleet.test_migration import Run, running
from tests.unit.router.hand_fed import HandFedLink, fleet_of, path, plan, request
from tests.unit.router.served import served_model

SLOW = pb.WatchLoadResponse(step_ms={1: 10.0, 16: 160.0})
OUTLINES = ("1:a", "2:b", "3:c", "4:d", "5:e", "6:f")


def prefix(*ids: int, salt: bytes = b"") -> Prefix:
    """Of a context, as a pool of several workers makes it."""
    namespace = served_model().namespace
    return Prefix(len(ids), {namespace: prefix_keys((Text(ids),), namespace, salt)})


def counts(run: Run) -> Counter[str]:
    """How many paths each worker was given."""
    return Counter(link.address for link, start in run.begun if "." in start.sampling.stream)


async def test_siblings_load_their_prefix_once_on_each_worker() -> None:
    async with running(siblings="spread") as run:
        home, root = await run.start(1)
        home.ended(root, plan(*OUTLINES), "root")
        other = run.other(home)
        await until(lambda: counts(run)[home.address] == 3)
        assert counts(run)[other.address] == 1, "the others come when their prefix is there"
        other.decoded(other.starts[0], path("A")[:1])
        await until(lambda: counts(run)[other.address] == 3)


async def test_siblings_do_not_wait_for_one_that_failed_to_load_their_prefix() -> None:
    async with running(siblings="spread") as run:
        home, root = await run.start(1)
        home.ended(root, plan(*OUTLINES), "root")
        other = run.other(home)
        await until(lambda: counts(run)[other.address] == 1)
        other.lose()
        await until(lambda: counts(run)[home.address] == 6)


async def test_paths_wait_for_the_targets_of_others_and_begin_as_places_come_free() -> None:
    async with running(workers=1, siblings="auto") as run:
        home, root = await run.start(1)
        home.load, home.load_at = SLOW, 1e12
        [worker] = run.fleet.workers
        began = asyncio.get_running_loop().time()
        with Session(Progress(began, target_ms=40.0)) as another:  # stands 3 branches, not 4
            another.start(worker, pb.Start(branch=new_branch()))
            home.ended(root, plan(*OUTLINES[:3]), "root")
            _, first = await run.start(3)
            assert counts(run) == {home.address: 1}
            home.ended(first, path("A"), "first")
            await run.start(4)
            assert counts(run) == {home.address: 2}
        await until(lambda: counts(run) == {home.address: 3})  # nobody is there any more


async def test_a_request_starts_where_its_prefix_was_sent_unless_the_worker_came_back_empty() -> (
    None
):
    links = [HandFedLink(address=f"worker:{number}") for number in (1, 2)]
    pool = fleet_of(*links).pool(served_model())
    assert pool.prefix((Text(tuple(range(200))),)) == prefix(*range(200))
    assert pool.root(prefix(*range(200))).address == "worker:1"
    links[0].load = links[1].load = SLOW
    first = pool.root(prefix(*range(300, 400)), without=[pool.members.workers[0]])
    assert first.address == "worker:2"
    assert pool.root(prefix(*range(300, 500))).address == "worker:2"
    links[1].lose()
    links[1].come_back()
    assert pool.root(prefix(*range(300, 400), 7)).address == "worker:1"


async def test_what_was_sent_for_a_tenant_draws_no_other() -> None:
    links = [HandFedLink(address=f"worker:{number}") for number in (1, 2)]
    pool = fleet_of(*links, placement="prefix_affinity").pool(served_model())
    salted = pool.prefix((Text(tuple(range(200))),), b"one")
    assert salted == prefix(*range(200), salt=b"one")
    first = pool.root(salted, without=[pool.members.workers[0]])
    assert first.address == "worker:2"
    assert pool.root(salted).address == "worker:2"
    assert pool.root(prefix(*range(200), salt=b"two")).address == "worker:1"


class Asked(SiblingPolicy):
    """Remembers what it was asked; all paths run at home."""

    def __init__(self) -> None:
        self.forks: list[Fork] = []

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        self.forks.append(fork)
        return (fork.home,) * fork.paths


async def test_a_fork_tells_who_else_has_its_prefix() -> None:
    links = [HandFedLink(address=f"worker:{number}") for number in (1, 2, 3)]
    fleet, asked = fleet_of(*links), Asked()
    pool = fleet.pool(served_model())
    fleet.policy = Policy(fleet.policy, asked)
    home, second, third = pool.members.workers
    for others in ([second, third], [home, third]):
        pool.root(prefix(*range(128)), without=others)
    behind = replace(prefix(*range(128)), tokens=300)
    pool.fork(home, 2, behind, Progress(0.0))
    pool.fork(home, 2, behind, Progress(0.0), loaded=[third])
    both = {home.address: 128, second.address: 128}
    assert [fork.coverage for fork in asked.forks] == [both, {**both, third.address: 300}]


class Away(SiblingPolicy):
    """All paths run on one other worker."""

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        return ("worker:2" if fork.home == "worker:1" else "worker:1",) * fork.paths


async def test_a_join_is_at_home_when_home_has_a_path_however_short() -> None:
    """What ran at home was not sent to the tier, what ran elsewhere was."""
    async with running(siblings="spread") as run:
        home, root = await run.start(1)
        home.ended(root, plan("1:a", "2:b"), "root")
        for link, start in [await run.start(number) for number in (2, 3)]:
            link.ended(start, path("A" if link is home else "A" * 40), start.sampling.stream)
        worker, join = await run.start(4)
        assert worker is home
        assert list(join.consumes) == ["root", "0.1"]


async def test_a_join_is_where_its_paths_are_when_home_has_none() -> None:
    async with running() as run:
        run.fleet.policy = Policy(run.fleet.policy, Away())
        home, root = await run.start(1)
        home.ended(root, plan("1:a", "2:b"), "root")
        for number in (2, 3):
            link, start = await run.start(number)
            assert link is run.other(home)
            link.ended(start, path("A"), start.sampling.stream)
        worker, join = await run.start(4)
        assert worker is run.other(home)
        assert [join.base_key, *join.consumes] == [b"", "0.1", "0.2"]


async def test_members_are_known_until_one_comes_goes_or_changes() -> None:
    links = [HandFedLink(address=f"worker:{number}") for number in (1, 2)]
    fleet = fleet_of(*links)
    pool = fleet.pool(served_model())
    known = pool.members
    assert pool.members is known
    links[1].lose()
    assert [worker.address for worker in pool.members.workers] == ["worker:1"]
    links[1].come_back()
    fleet.add(HandFedLink(address="worker:3"))
    assert len(pool.members.workers) == 3


@pytest.mark.parametrize(
    ("asked", "key", "server", "target"),
    [
        (30.0, 40, 50.0, 30.0),
        (None, 40, 50.0, 40.0),
        (None, None, 50.0, 50.0),
        (None, None, None, None),
    ],
)
def test_the_target_is_that_of_the_request_of_its_key_or_of_the_router(
    asked: float | None, key: int | None, server: float | None, target: float | None
) -> None:
    aimed = _aimed(replace(request(), token_ms=asked), Allowance(token_ms=key), server)
    assert aimed.token_ms == target


@pytest.mark.parametrize(("asked", "counts"), [(None, 5), (3, 3), (9, 5)])
def test_a_request_may_ask_for_less_priority_than_its_key_has(
    asked: int | None, counts: int
) -> None:
    aimed = _aimed(replace(request(), priority=asked), Allowance(priority=5), None)
    assert aimed.priority == counts
