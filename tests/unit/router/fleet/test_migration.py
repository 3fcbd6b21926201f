"""A branch whose worker is lost goes on elsewhere: no token twice, none left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.branches import MOST_FAULTS, MOST_MOVES
from multiverse_router.coordinator import Coordinator
from multiverse_router.events import AnswerEvent, FinishEvent, TextEvent
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.linear import Linear
from multiverse_router.request import AnswerRequest
from multiverse_shared.dialect import Tag
from multiverse_shared.errors import CapacityExceeded, MultiverseError, WorkerUnavailable
from tests.unit.router.asgi import until
from tests.unit.router.hand_fed import HandFedLink, fleet_of, path, plan, request, tag, text
from tests.unit.router.served import EOS, served_model, tokenizer


@dataclass
class Run:
    """An answer in the making on several workers."""

    links: list[HandFedLink]
    fleet: Fleet
    events: list[AnswerEvent] = field(default_factory=list)
    task: asyncio.Task[None] = field(init=False)

    @property
    def begun(self) -> list[tuple[HandFedLink, pb.Start]]:
        """In the order of their numbers."""
        found = [(link, start) for link in self.links for start in link.starts]
        return sorted(found, key=lambda pair: pair[1].branch)

    async def start(self, number: int) -> tuple[HandFedLink, pb.Start]:
        """The `number`-th start, from 1, and where it went."""
        await until(lambda: len(self.begun) >= number or self.task.done())
        return self.begun[number - 1]

    @property
    def text(self) -> str:
        linear = Linear()
        return "".join(linear.add(event) for event in self.events)

    @property
    def ids(self) -> list[int]:
        told = [event for event in self.events if isinstance(event, TextEvent)]
        return [token for event in told for token in event.token_ids]

    def other(self, link: HandFedLink) -> HandFedLink:
        return next(one for one in self.links if one is not link)


@asynccontextmanager
async def running(
    wanted: AnswerRequest | None = None, workers: int = 2, **settings: object
) -> AsyncIterator[Run]:
    links = [HandFedLink(address=f"worker:{number}") for number in range(1, workers + 1)]
    run = Run(links, fleet_of(*links, **settings))
    model = served_model()
    pool = run.fleet.pool(model)
    coordinator = Coordinator(pool, model, wanted or request(), run.events.append)
    run.task = asyncio.create_task(coordinator.run())
    try:
        yield run
    finally:
        run.task.cancel()
        await asyncio.wait([run.task])
        assert run.fleet.requests == 0
        assert all(link.branches == link.tokens == link.loading == 0 for link in links)


def eos() -> int:
    return tokenizer().token_id(EOS) or 0


def sent_ids(start: pb.Start) -> list[int]:
    return [token for item in start.context.items for token in item.text.ids]


async def test_the_root_goes_on_from_what_it_has_said() -> None:
    async with running() as run:
        home, first = await run.start(1)
        home.decoded(first, text("abc"))
        await until(lambda: run.ids == text("abc"))
        home.lose()
        elsewhere, second = await run.start(2)
        assert elsewhere is not home
        assert sent_ids(second) == [*text("prompt"), *text("abc")]
        assert second.sampling.draws == len(text("abc"))
        assert second.sampling.stream == first.sampling.stream
        assert second.sampling.seed == first.sampling.seed
        assert second.max_tokens == first.max_tokens - len(text("abc"))
        assert second.base_key == b""
        elsewhere.ended(second, [*text("def"), eos()], "end")
        await run.task
        assert run.text == "abcdef"
        assert isinstance(run.events[-1], FinishEvent)


async def test_tokens_that_wait_in_the_inbox_as_the_worker_is_lost_are_not_said_twice() -> None:
    async with running() as run:
        home, first = await run.start(1)
        home.decoded(first, text("ab"))
        home.decoded(first, text("cd"))
        home.lose()
        elsewhere, second = await run.start(2)
        assert sent_ids(second) == [*text("prompt"), *text("ab"), *text("cd")]
        elsewhere.ended(second, [*text("e"), eos()], "end")
        await run.task
        assert run.text == "abcde"


async def test_a_stop_that_was_said_before_the_worker_was_lost_counts() -> None:
    """The worker had no time to say that the branch had ended."""
    async with running() as run:
        home, first = await run.start(1)
        home.decoded(first, plan("1:a", "2:b"))
        home.lose()
        starts = [await run.start(number) for number in (2, 3)]
        assert [start.sampling.stream for _, start in starts] == ["0.1", "0.2"]
        assert all(link is not home for link, _ in starts)
        assert all(start.base_key == b"" for _, start in starts)


async def test_paths_and_their_home_move_and_the_answer_is_whole() -> None:
    async with running() as run:
        home, root = await run.start(1)
        home.ended(root, plan("1:a", "2:b"), "root")
        _, one = await run.start(2)
        _, two = await run.start(3)
        home.ended(one, path("A"), "one")
        home.decoded(two, text("B"))
        await until(lambda: "B" in {e.delta for e in run.events if isinstance(e, TextEvent)})
        home.lose()
        elsewhere, again = await run.start(4)
        assert again.sampling.stream == "0.2"
        assert not again.HasField("block"), "its block was never on this worker"
        elsewhere.ended(again, path("BB"), "two")
        link, joined = await run.start(5)
        assert link is elsewhere
        assert len(joined.context.items[1].block.paths) == 2
        assert set(joined.consumes) == {"two"}
        end = [tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE), *text("!"), eos()]
        elsewhere.ended(joined, end, "end")
        await run.task
        assert run.text.count("A") == 1
        assert "BBB" in run.text


async def test_without_another_worker_an_answer_waits_for_its_own_to_come_back() -> None:
    async with running(workers=1, reroute_s=30) as run:
        home, first = await run.start(1)
        home.decoded(first, text("ab"))
        home.lose()
        await until(lambda: run.fleet.homeless.requests == 1)
        home.come_back()
        link, second = await run.start(1)
        assert link is home
        assert sent_ids(second) == [*text("prompt"), *text("ab")]
        home.ended(second, [*text("c"), eos()], "end")
        await run.task
        assert run.text == "abc"


async def test_an_answer_does_not_wait_for_ever() -> None:
    async with running(workers=1, reroute_s=0.05) as run:
        home, _ = await run.start(1)
        home.lose()
        with pytest.raises(WorkerUnavailable, match="worker:1"):
            await run.task


async def fail_on(run: Run, code: str) -> None:
    """Let every start fail, until the answer has ended."""
    failed = 0
    while not run.task.done():
        await until(lambda failed=failed: run.task.done() or len(run.begun) > failed)
        for link, start in run.begun[failed:]:
            failed += 1
            link.failed(start, code, "it can't be done")


async def test_what_fails_everywhere_ends_after_a_bounded_number_of_tries() -> None:
    async with running() as run:
        await fail_on(run, "INTERNAL")
        with pytest.raises(MultiverseError, match="it can't be done"):
            await run.task
        assert len(run.begun) == MOST_FAULTS
        assert {link for link, _ in run.begun} == set(run.links)
        assert all(worker.breaker.closed for worker in run.fleet.workers), "others may be served"


async def test_what_ends_worker_after_worker_ends_a_bounded_number() -> None:
    async with running(workers=MOST_MOVES + 3) as run:
        ended = 0
        while not run.task.done():
            await until(lambda ended=ended: run.task.done() or len(run.begun) > ended)
            for link, _ in run.begun[ended:]:
                ended += 1
                link.lose()
        with pytest.raises(WorkerUnavailable):
            await run.task
        assert ended == MOST_MOVES + 1


async def test_a_stream_that_broke_under_many_answers_is_one_failure() -> None:
    links = [HandFedLink(address=f"worker:{number}") for number in (1, 2)]
    fleet, model = fleet_of(*links, placement="round_robin"), served_model()
    answers = [
        Coordinator(fleet.pool(model), model, request(), lambda event: None) for _ in "abcdefgh"
    ]
    tasks = [asyncio.create_task(answer.run()) for answer in answers]
    await until(lambda: all(len(link.starts) == 4 for link in links))
    links[0].lose()
    await until(lambda: len(links[1].starts) == 8)
    links[0].come_back()
    assert all(worker.available for worker in fleet.workers)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_without_another_worker_a_fault_is_told_at_once() -> None:
    async with running(workers=1, reroute_s=30) as run:
        link, start = await run.start(1)
        link.failed(start, "INTERNAL", "it can't be done")
        with pytest.raises(MultiverseError, match="it can't be done"):
            await run.task


async def test_a_draining_worker_refuses_and_the_other_takes_the_answer() -> None:
    async with running() as run:
        first_link, first = await run.start(1)
        first_link.failed(first, "UNAVAILABLE", "the worker is draining")
        second_link, second = await run.start(2)
        assert second_link is not first_link
        second_link.ended(second, [*text("x"), eos()], "end")
        await run.task
        assert run.text == "x"


async def test_a_full_worker_sends_the_answer_to_another() -> None:
    async with running() as run:
        one, first = await run.start(1)
        one.failed(first, "RESOURCE_EXHAUSTED", "full")
        two, second = await run.start(2)
        assert two is not one
        assert one.fleet.workers[0].breaker.closed, "to be full is no fault"
        two.ended(second, [*text("x"), eos()], "end")
        await run.task


async def test_when_all_are_full_the_client_is_told_so() -> None:
    async with running() as run:
        await fail_on(run, "RESOURCE_EXHAUSTED")
        with pytest.raises(CapacityExceeded, match="it can't be done"):
            await run.task
        assert {link for link, _ in run.begun} == set(run.links)


async def test_a_request_that_is_wrong_is_not_tried_elsewhere() -> None:
    async with running() as run:
        link, start = await run.start(1)
        link.failed(start, "INVALID_ARGUMENT", "no such thing")
        with pytest.raises(MultiverseError, match="no such thing"):
            await run.task
        assert len(run.begun) == 1


async def test_a_branch_that_the_worker_gave_up_goes_on_elsewhere() -> None:
    """As at the end of the grace time of a worker that drains."""
    async with running() as run:
        home, first = await run.start(1)
        finish = pb.Finish(reason=pb.FINISH_REASON_ABORTED)
        home._dispatch(pb.Update(branch=first.branch, ids=text("ab"), finish=finish))
        elsewhere, second = await run.start(2)
        assert elsewhere is not home
        assert second.sampling.draws == len(text("ab"))
        elsewhere.ended(second, [*text("c"), eos()], "end")
        await run.task
        assert run.text == "abc"


async def test_leaving_ends_what_runs_wherever_it_is() -> None:
    async with running(siblings="spread") as run:
        home, root = await run.start(1)
        home.ended(root, plan("1:a", "2:b"), "root")
        starts = [await run.start(number) for number in (2, 3)]
        assert {link for link, _ in starts} == set(run.links)
    assert all(start.branch in link.aborted for link, start in starts)
    assert "root" in home.released


async def test_the_paths_of_a_spread_fork_join_at_home() -> None:
    async with running(siblings="spread") as run:
        home, root = await run.start(1)
        home.ended(root, plan("1:a", "2:b"), "root")
        starts = [await run.start(number) for number in (2, 3)]
        for number, (link, start) in enumerate(starts):
            assert start.HasField("block") == (link is home)
            link.ended(start, path("AB"[number]), f"lease {number}")
        link, joined = await run.start(4)
        assert link is home
        away = next(n for n, (link, _) in enumerate(starts) if link is not home)
        assert f"lease {away}" not in joined.consumes
        assert f"lease {away}" in run.other(home).released
