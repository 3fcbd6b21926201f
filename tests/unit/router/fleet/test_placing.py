"""Where and when branches start, as the placement policies say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.answers import _aimed
from multiverse_router.fleet.link import new_branch
from multiverse_router.fleet.session import Session
from multiverse_router.placement.view import Progress
from multiverse_shared.api_keys import Allowance
from multiverse_shared.tree import Text
from tests.unit.router.asgi import until
from tests.unit.router.fleet.test_migration import Run, running
from tests.unit.router.hand_fed import HandFedLink, fleet_of, path, plan, request
from tests.unit.router.served import served_model

SLOW = pb.WatchLoadResponse(step_ms={1: 10.0, 16: 160.0})
OUTLINES = ("1:a", "2:b", "3:c", "4:d", "5:e", "6:f")


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
        with Session(Progress(0.0, target_ms=1.0)) as another:
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
    context = (Text(tuple(range(200))),)
    assert pool.root(context).address == "worker:1"
    links[0].load = links[1].load = SLOW
    first = pool.root((Text(tuple(range(300, 400))),), without=[pool.members[0]])
    assert first.address == "worker:2"
    assert pool.root((Text(tuple(range(300, 500))),)).address == "worker:2"
    links[1].lose()
    links[1].come_back()
    assert pool.root((Text((*range(300, 400), 7)),)).address == "worker:1"


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
