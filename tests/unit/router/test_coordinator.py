"""One answer carried out on a worker: what is started, when, and what the client is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.coordinator import Coordinator
from multiverse_router.events import (
    AnswerEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.linear import Linear
from multiverse_router.request import AnswerRequest, Parallel
from multiverse_shared.dialect import Tag
from multiverse_shared.errors import CapacityExceeded, WorkerUnavailable
from multiverse_shared.limits import Limits
from tests.unit.router.asgi import until
from tests.unit.router.hand_fed import HandFedLink, path, plan, request, tag, text
from tests.unit.router.served import EOS, tokenizer


@dataclass
class Run:
    """An answer in the making."""

    link: HandFedLink
    events: list[AnswerEvent]
    task: asyncio.Task[None] = field(init=False)

    async def start(self, number: int) -> pb.Start:
        """The `number`-th start command, from 1."""
        await until(lambda: len(self.link.starts) >= number or self.task.done())
        return self.link.starts[number - 1]

    def told(self, kind: type[AnswerEvent]) -> list[AnswerEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        linear = Linear()
        return "".join(linear.add(event) for event in self.events)


@asynccontextmanager
async def running(wanted: AnswerRequest) -> AsyncIterator[Run]:
    """`wanted` on a hand-fed link; cancelled at the end if it still runs."""
    run = Run(HandFedLink(), [])
    coordinator = Coordinator(
        run.link.fleet.pool(run.link.model), run.link.model, wanted, run.events.append
    )
    run.task = asyncio.create_task(coordinator.run())
    try:
        yield run
    finally:
        run.task.cancel()
        await asyncio.wait([run.task])


async def fork(run: Run, *outlines: str) -> list[pb.Start]:
    """Let the root write a plan; the starts of its paths."""
    root = await run.start(1)
    run.link.ended(root, plan(*outlines), "root")
    return [await run.start(number) for number in range(2, 2 + len(outlines))]


async def test_an_answer_forks_joins_and_ends() -> None:
    async with running(request()) as run:
        first, second = await fork(run, "1:a", "2:b")
        run.link.ended(second, path("B"), "second")
        run.link.ended(first, path("A"), "first")
        joined = await run.start(4)
        assert set(joined.consumes) == {"root", "first", "second"}
        end = [tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE), *text("!")]
        run.link.decoded(joined, end)
        run.link.ended(joined, [tokenizer().token_id(EOS) or 0], "joined")
        await run.task
    kinds = [type(event) for event in run.events if not isinstance(event, TextEvent)]
    assert kinds == [
        StartEvent,
        ForkEvent,
        PathEndEvent,
        PathEndEvent,
        JoinEvent,
        UsageEvent,
        FinishEvent,
    ]
    assert run.told(ForkEvent) == [ForkEvent("0", 2, ("0.1", "0.2"), ("1:a", "2:b"))]
    assert [event.path for event in run.told(PathEndEvent)] == ["0.2", "0.1"]
    assert run.events[-1] == FinishEvent("stop")
    assert run.text == (
        "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
        "<Path>1:A</Path><Path>2:B</Path><Conclusion></Conclusion></Parallel>!"
    )


async def test_serial_runs_one_path_at_a_time() -> None:
    async with running(request(parallel=Parallel.SERIAL)) as run:
        root = await run.start(1)
        run.link.ended(root, plan("1:a", "2:b"), "root")
        for number in (2, 3):
            await until(lambda: len(run.link.starts) > 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(run.link.starts) == number
            run.link.ended(run.link.starts[-1], path("x"), f"path {number}")
        assert (await run.start(4)).consumes


async def test_no_more_paths_live_at_once_than_may() -> None:
    limits = Limits(max_total_tokens=2000, max_live_paths=2)
    async with running(request(limits)) as run:
        root = await run.start(1)
        run.link.ended(root, plan("1:a", "2:b", "3:c", "4:d"), "root")
        first = await run.start(2)
        await run.start(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(run.link.starts) == 3
        run.link.ended(first, path("A"), "first")
        assert await run.start(4)


async def test_siblings_draw_from_streams_of_their_own() -> None:
    async with running(request()) as run:
        starts = await fork(run, "1:a", "2:b")
        assert {start.sampling.seed for start in starts} == {1}
        assert [start.sampling.stream for start in starts] == ["0.1", "0.2"]


async def test_off_bans_the_tags_that_would_open_a_fork() -> None:
    async with running(request(parallel=Parallel.OFF)) as run:
        root = await run.start(1)
        assert {tag(Tag.BLOCK_OPEN), tag(Tag.PLAN_OPEN)} <= {
            token for sequence in root.sampling.banned for token in sequence.ids
        }


async def test_a_base_that_the_worker_has_lost_is_sent_again_in_full() -> None:
    async with running(request()) as run:
        root = await run.start(1)
        context = len(text("prompt")) + len(plan("1:a", "2:b"))
        run.link.ended(root, plan("1:a", "2:b"), "root", key=b"k", context_tokens=context)
        first = await run.start(2)
        assert first.base_key == b"k"
        run.link.failed(first, "NOT_FOUND", "no lease on this base")
        again = await run.start(4)
        assert not again.base_key
        assert again.branch != first.branch
        ids = [index for item in again.context.items for index in item.text.ids]
        assert ids[:context] == [*text("prompt"), *plan("1:a", "2:b")]


async def test_an_error_of_the_worker_ends_the_answer_with_it() -> None:
    async with running(request()) as run:
        first, second = await fork(run, "1:a", "2:b")
        run.link.failed(first, "RESOURCE_EXHAUSTED", "the pool is full")
        with pytest.raises(CapacityExceeded, match="the pool is full"):
            await run.task
        assert second.branch in run.link.aborted
    assert not run.told(FinishEvent)


async def test_a_branch_that_the_worker_gave_up_is_an_error_and_no_short_answer() -> None:
    """A draining worker aborts what is left; the text so far is not all of the answer."""
    async with running(request()) as run:
        root = await run.start(1)
        run.link.decoded(root, text("half of it"))
        run.link.ended(root, [], "", reason=pb.FINISH_REASON_ABORTED)
        with pytest.raises(WorkerUnavailable):
            await run.task
    assert not run.told(FinishEvent)


async def test_a_broken_stream_ends_the_answer_with_an_error() -> None:
    async with running(request()) as run:
        await fork(run, "1:a", "2:b")
        run.link.lose()
        with pytest.raises(WorkerUnavailable):
            await run.task


async def test_an_incomplete_character_before_a_tag_is_said_before_it() -> None:
    async with running(request()) as run:
        root = await run.start(1)
        run.link.decoded(root, [*text("a"), text("\U0001f9d1")[0]])
        run.link.ended(root, plan("1:a"), "root")
        await run.start(2)
    assert run.text.startswith("a\ufffd<Parallel>")


class TestDeadline:
    """A passed deadline shapes the answer; what was written by then is all told."""

    @staticmethod
    async def passed() -> Run:
        """A fork of two, both paths half written, when the deadline passes."""
        async with running(request(deadline_s=0.5)) as run:
            first, second = await fork(run, "1:a", "2:b")
            run.link.decoded(first, text("one"))
            run.link.decoded(second, text("two"))
            async with asyncio.timeout(5):
                await run.task
        assert run.link.aborted == {first.branch, second.branch}
        return run

    async def test_the_answer_finishes_with_that_reason(self) -> None:
        run = await self.passed()
        assert [type(event) for event in run.events[-2:]] == [UsageEvent, FinishEvent]
        assert run.events[-1] == FinishEvent("deadline")

    async def test_every_open_path_is_ended(self) -> None:
        run = await self.passed()
        assert {event.path for event in run.told(PathEndEvent)} == {"0.1", "0.2"}

    async def test_the_linear_text_holds_what_all_paths_wrote(self) -> None:
        run = await self.passed()
        assert "one" in run.text
        assert "two" in run.text
