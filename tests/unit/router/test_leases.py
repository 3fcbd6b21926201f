"""Every lease that a worker grants is given back, however the answer ends.

What is not consumed by a branch that holds its context, nor released, pins KV for a minute.
"""

from __future__ import annotations

import asyncio

import pytest

from multiverse_shared.dialect import Tag
from multiverse_shared.errors import MultiverseError
from multiverse_shared.limits import Limits
from tests.unit.router.asgi import until
from tests.unit.router.hand_fed import HandFedLink, path, plan, request, tag, text
from tests.unit.router.served import EOS, tokenizer
from tests.unit.router.test_coordinator import Run, fork, running


def kept(link: HandFedLink, *consumed: str) -> set[str]:
    """Leases that neither a loaded join nor a release has ended."""
    return link.granted - link.released - set(consumed)


async def join_of_two(run: Run) -> object:
    """Both paths have ended, and the join was sent."""
    first, second = await fork(run, "1:a", "2:b")
    run.link.ended(first, path("A"), "first")
    run.link.ended(second, path("B"), "second")
    return await run.start(4)


async def test_after_a_whole_answer_nothing_is_held() -> None:
    async with running(request()) as run:
        joined = await join_of_two(run)
        run.link.decoded(joined, [tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE)])  # it is loaded
        run.link.ended(joined, [tokenizer().token_id(EOS) or 0], "joined")
        await run.task
    assert kept(run.link, "root", "first", "second") == set()


async def test_a_client_that_leaves_while_paths_run_frees_those_that_ended() -> None:
    async with running(request()) as run:
        first, second = await fork(run, "1:a", "2:b")
        run.link.ended(first, path("A"), "first")
        await until(lambda: run.link._flights.keys() == {second.branch})
        for _ in range(5):
            await asyncio.sleep(0)
    assert kept(run.link) == set()
    assert second.branch in run.link.aborted


async def test_a_client_that_leaves_before_the_join_is_loaded_frees_the_paths() -> None:
    async with running(request()) as run:
        joined = await join_of_two(run)
    assert joined.branch in run.link.aborted
    assert kept(run.link) == set()


async def test_a_join_that_the_worker_refuses_frees_the_paths() -> None:
    async with running(request()) as run:
        joined = await join_of_two(run)
        run.link.failed(joined, "RESOURCE_EXHAUSTED", "no room")
        with pytest.raises(MultiverseError):
            await run.task
    assert kept(run.link) == set()


async def test_a_join_that_is_sent_again_consumes_the_paths_again() -> None:
    async with running(request()) as run:
        joined = await join_of_two(run)
        run.link.failed(joined, "NOT_FOUND", "no lease on this base")
        again = await run.start(5)
        assert {"first", "second"} <= set(again.consumes)


async def test_an_end_that_arrives_as_the_client_leaves_is_freed() -> None:
    async with running(request()) as run:
        root = await run.start(1)
        run.link.ended(root, plan("1:a", "2:b"), "root")
        run.task.cancel()  # before the coordinator has read it
    assert kept(run.link) == set()


async def test_an_end_that_arrives_after_the_client_left_is_freed() -> None:
    async with running(request()) as run:
        root = await run.start(1)
    run.link.ended(root, plan("1:a", "2:b"), "root")
    assert kept(run.link) == set()


async def test_an_end_in_the_frame_that_closes_a_full_plan_is_freed() -> None:
    """The interpreter gives the branch up at the last outline; the frame says more."""
    limits = Limits(max_total_tokens=1000, max_paths=2)
    async with running(request(limits)) as run:
        first, second = await fork(run, "1:a", "2:b")
        assert first.branch != second.branch
    assert kept(run.link) == set()


async def test_an_end_after_a_full_plan_was_closed_is_freed() -> None:
    limits = Limits(max_total_tokens=1000, max_paths=2)
    async with running(request(limits)) as run:
        root = await run.start(1)
        *ids, last = plan("1:a", "2:b")
        run.link.decoded(root, ids)
        await run.start(3)
        assert root.branch in run.link.aborted
        run.link.ended(root, [last], "root")
    assert kept(run.link) == set()


async def test_an_error_frees_what_was_granted() -> None:
    async with running(request()) as run:
        first, second = await fork(run, "1:a", "2:b")
        run.link.ended(first, path("A"), "first")
        run.link.failed(second, "INTERNAL", "broken")
        with pytest.raises(MultiverseError):
            await run.task
    assert kept(run.link) == set()


async def test_nothing_is_remembered_of_branches_that_are_gone() -> None:
    async with running(request()) as run:
        first, _ = await fork(run, "1:a", "2:b")
        run.link.decoded(first, text("A"))
    assert run.link.branches == 0
    assert run.link.fleet.requests == 0
