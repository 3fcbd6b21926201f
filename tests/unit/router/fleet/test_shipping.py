"""What is joined elsewhere is sent to the tier from the fork on, and tenants are kept apart."""

from __future__ import annotations

from dataclasses import replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.placement.policy import Fork, Placement, Policy, SiblingPolicy
from multiverse_router.placement.view import Fleet
from multiverse_router.wire import salt_of
from tests.unit.router.fleet.test_migration import Run, running
from tests.unit.router.hand_fed import HandFedLink, path, plan, request, text


async def planned(run: Run, *outlines: str) -> tuple[HandFedLink, pb.Start]:
    """Home, and the start that has written a plan there."""
    home, root = await run.start(1)
    written = [token for stop in root.stops for token in stop.tail]
    tokens = len(text("prompt")) + len(plan(*outlines)) + len(written)
    home.ended(root, plan(*outlines), "root", key=b"k", appended=written, context_tokens=tokens)
    return home, root


async def forked(run: Run) -> tuple[HandFedLink, pb.Start, list[tuple[HandFedLink, pb.Start]]]:
    """Home, its start, and the two paths with their workers."""
    home, root = await planned(run, "1:a", "2:b")
    return home, root, [await run.start(number) for number in (2, 3)]


async def test_only_paths_away_from_home_are_shipped_from_the_fork_on() -> None:
    async with running(siblings="spread") as run:
        home, root, paths = await forked(run)
        assert {link for link, _ in paths} == set(run.links)
        assert not root.HasField("ship_from")
        for link, start in paths:
            if link is home:
                assert start.base_key == b"k"
                assert not start.HasField("ship_from")
            else:
                assert start.base_key == b""
                header = len(text(f"{start.sampling.stream[-1]}:"))
                sent = sum(len(item.text.ids) for item in start.context.items)
                assert 0 < start.ship_from < sent
                assert start.ship_from <= sent - header


async def test_a_join_is_at_home_and_is_not_shipped() -> None:
    async with running(siblings="spread") as run:
        home, _, paths = await forked(run)
        for number, (link, start) in enumerate(paths):
            link.ended(start, path("A"), f"lease {number}")
        worker, join = await run.start(4)
        assert worker is home
        assert not join.HasField("ship_from")


class OneThenAway(SiblingPolicy):
    """One path at home; when it has ended, the others elsewhere."""

    def __init__(self) -> None:
        self._asked = 0

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        self._asked += 1
        if self._asked == 1:
            return (fork.home, *[None] * (fork.paths - 1))
        [other] = (worker.id for worker in fleet.workers if worker.id != fork.home)
        return (other,) * fork.paths


async def test_a_path_at_home_is_shipped_when_siblings_may_move_and_the_join_goes_along() -> None:
    async with running(siblings="local") as run:
        run.fleet.policy = Policy(run.fleet.policy, OneThenAway())
        home, _ = await planned(run, "1:a", "2:b", "3:c", "4:d")
        link, first = await run.start(2)
        assert link is home
        assert first.ship_from > 0
        home.ended(first, path("A"), "first")
        away, second = await run.start(3)
        assert away is not home
        away.ended(second, path("B"), "second")
        for number in (4, 5):
            link, start = await run.start(number)
            assert link is away
            link.ended(start, path("C"), f"lease {number}")
        worker, join = await run.start(6)
        assert worker is away
        assert not join.HasField("ship_from")


async def test_nothing_is_shipped_when_all_paths_stay_at_home() -> None:
    async with running(siblings="local") as run:
        home, _, paths = await forked(run)
        assert all(link is home and not start.HasField("ship_from") for link, start in paths)


async def test_every_start_carries_the_salt_of_its_tenant() -> None:
    async with running(replace(request(), tenant="acme"), siblings="spread") as run:
        _, root, paths = await forked(run)
        assert {start.salt for start in (root, *(start for _, start in paths))} == {salt_of("acme")}


def test_salts_differ_by_tenant_and_nobody_has_none() -> None:
    assert salt_of("one") == salt_of("one") != salt_of("two")
    assert salt_of("") == b""
    assert 0 < len(salt_of("one" * 100)) <= 64
