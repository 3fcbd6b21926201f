"""The stream to the worker: it comes back by itself, and tells requests when it broke."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.link import COMMANDS_BYTES, UPDATES_AT_ONCE, WorkerLink, new_branch
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import WorkerUnavailable
from tests.unit.router.scripted_worker import (
    END,
    ScriptedWorker,
    link_to,
    linked,
    reason,
    serving,
)

POLL_S = 0.01


class Reader:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.gone: list[int] = []
        self.reason = ""

    def updated(self, link: WorkerLink, update: pb.Update) -> None:
        self.told += update.ids

    def lost(self, link: WorkerLink, branches: list[int], reason: str) -> None:
        self.gone += branches
        self.reason = reason


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(POLL_S)


def _ready(link: WorkerLink) -> bool:
    return not reason(link)


async def test_a_link_without_a_worker_says_so() -> None:
    async with linked(1) as (link, task):
        await eventually(lambda: "UNAVAILABLE" in reason(link))
        with pytest.raises(WorkerUnavailable, match=r"127\.0\.0\.1:1"):
            assert link.model
        assert not task.done()


async def test_files_that_come_in_chunks_make_the_model() -> None:
    async with serving(ScriptedWorker()) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        assert link.model.name == "small"


async def test_commands_go_out_in_order_and_updates_come_to_who_started_the_branch() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        (one, first), (two, second) = (new_branch(), Reader()), (new_branch(), Reader())
        link.start(pb.Start(branch=one), first)
        link.start(pb.Start(branch=two), second)
        link.release("lease")
        await eventually(lambda: len(worker.commands) == 3)
        kinds = [command.WhichOneof("command") for command in worker.commands]
        assert kinds == ["start", "start", "release"]
        updates = [pb.Update(branch=two, ids=[2]), pb.Update(branch=one, ids=[1])]
        worker.frames.put_nowait(pb.RunResponse(updates=updates))
        await eventually(lambda: (first.told, second.told) == ([1], [2]))


async def test_commands_given_at_once_go_out_in_one_message_unless_it_grows_large() -> None:
    worker = ScriptedWorker()
    half = list(range(3 * COMMANDS_BYTES // 8, COMMANDS_BYTES // 2))  # three bytes an id
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        numbers = [new_branch() for _ in range(7)]
        for number in numbers:
            link.start(pb.Start(branch=number), Reader())
        link.release("lease")
        await eventually(lambda: worker.together == [8])
        assert [command.start.branch for command in worker.commands[:7]] == numbers
        assert worker.commands[7].release.lease == "lease"
        text = pb.Item(text=pb.Text(ids=half))
        assert 2 * text.ByteSize() < COMMANDS_BYTES < 3 * text.ByteSize()
        for _ in range(4):
            link.start(pb.Start(branch=new_branch(), context=pb.Context(items=[text])), Reader())
        await eventually(lambda: len(worker.commands) == 12)
        assert worker.together == [8, 2, 2]


async def test_an_aborted_branch_is_not_in_flight_and_is_aborted_once() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        branch = new_branch()
        link.start(pb.Start(branch=branch), Reader(), tokens=7, loading=3)
        assert (link.branches, link.tokens, link.loading) == (1, 7, 3)
        link.abort(branch)
        link.abort(branch)
        link.release("last")
        assert (link.branches, link.tokens, link.loading) == (0, 0, 0)
        await eventually(lambda: len(worker.commands) == 3)
        assert worker.commands[1].abort.branch == branch


async def test_the_lease_of_a_branch_that_nobody_waits_for_is_released() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        finish = pb.Finish(reason=pb.FINISH_REASON_STOP, lease="left")
        update = pb.Update(branch=99, finish=finish)
        worker.frames.put_nowait(pb.RunResponse(updates=[update]))
        await eventually(lambda: worker.commands)
        assert worker.commands[0].release.lease == "left"


async def test_a_stream_that_the_worker_closes_is_told_to_requests_and_opened_again() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        branch, reader = new_branch(), Reader()
        link.start(pb.Start(branch=branch), reader)
        await eventually(lambda: worker.commands)  # or its writing could fail, and say so
        worker.frames.put_nowait(END)
        await eventually(lambda: reader.gone == [branch])
        assert "closed the stream" in reader.reason
        assert link.branches == 0
        await eventually(lambda: not reason(link) and worker.streams == 2)
        assert link.stream == 2


async def test_a_link_that_is_given_up_connects_anew_and_says_why() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, task):
        await eventually(lambda: not reason(link))
        reader = Reader()
        link.start(pb.Start(branch=new_branch()), reader)
        await eventually(lambda: worker.commands)
        link.give_up("it said nothing")
        await eventually(lambda: reader.gone)
        assert "it said nothing" in reader.reason
        await eventually(lambda: not reason(link) and worker.streams == 2)
        assert not task.done()


async def test_a_stream_that_ends_while_commands_are_sent_is_told_in_our_words() -> None:
    """The library's own for it name no stream and no worker."""
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        reader = Reader()
        link.start(pb.Start(branch=new_branch()), reader)
        worker.frames.put_nowait(END)
        for _ in range(50):
            link.release("a lease")
            await asyncio.sleep(0)
        await eventually(lambda: reader.gone)
        assert "the stream" in reader.reason
        assert "Core" not in reader.reason


async def test_commands_of_a_broken_stream_do_not_reach_the_next_one() -> None:
    worker = ScriptedWorker()
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        reader = Reader()
        link.start(pb.Start(branch=new_branch()), reader)
        await eventually(lambda: worker.commands)
        worker.frames.put_nowait(END)
        await eventually(lambda: reader.gone)
        link.release("of the first stream")
        await eventually(lambda: not reason(link) and worker.streams == 2)
        link.start(pb.Start(branch=new_branch()), reader)
        await eventually(lambda: len(worker.commands) > 1)
        assert [c.WhichOneof("command") for c in worker.commands[1:2]] == ["start"]


async def test_a_worker_that_comes_back_at_its_port_is_found() -> None:
    async with serving(ScriptedWorker()) as port:
        pass
    async with AsyncExitStack() as servers, linked(port) as (link, _):
        await eventually(lambda: "UNAVAILABLE" in reason(link))
        await servers.enter_async_context(serving(ScriptedWorker(), port))
        await eventually(lambda: not reason(link))


async def test_a_link_that_is_ended_as_its_worker_goes_away_ends() -> None:
    """Both happen at once when a whole set-up is stopped. Tried often: it is a race."""
    for _ in range(10):
        async with serving(ScriptedWorker()) as port:
            link = link_to(port)
            task = asyncio.create_task(link.run())
            await eventually(partial(_ready, link))
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2)
        if not done:
            task.cancel()  # the next one counts: it finds the link asleep
            await asyncio.wait([task])
        assert done, "the link went on to connect again"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("multiverse.json", b"{}"),
        ("tokenizer.json", b"{}"),
        ("generation_config.json", b"{"),
        ("tokenizer_config.json", b"\xff"),
    ],
)
async def test_a_worker_with_a_bad_file_does_not_end_the_link(name: str, content: bytes) -> None:
    """The next worker at this address may be a good one."""
    worker = ScriptedWorker()
    good, worker.files[name] = worker.files[name], content
    async with serving(worker) as port, linked(port) as (link, task):
        await eventually(lambda: reason(link) != "worker not connected yet" or task.done())
        await eventually(lambda: name in reason(link) or task.done())
        assert not task.done(), f"the link ended: {task.exception()!r}"
        worker.files[name] = good
        await eventually(lambda: not reason(link))


async def test_a_model_that_can_not_be_served_is_refused_until_it_can() -> None:
    """As opposed to a worker that is not there: whoever waits need not wait on."""
    worker = ScriptedWorker()
    card = worker.files["multiverse.json"]
    worker.files["multiverse.json"] = b'{"dialect": "none", "prompt_suffix": ""}'
    async with linked(1) as (link, _):
        await eventually(lambda: "UNAVAILABLE" in reason(link))
        assert not link.refused
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: link.refused)
        assert "none" in reason(link)
        worker.files["multiverse.json"] = card
        await eventually(lambda: not reason(link))
        assert not link.refused


async def test_ending_the_link_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with serving(ScriptedWorker()) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
    await eventually(lambda: len(asyncio.all_tasks() - before) == 0)


def test_a_command_without_a_connection_is_dropped() -> None:
    link = WorkerLink("nobody:1", RouterSettings())
    link.send(pb.RunRequest(release=pb.Release(lease="x")))
    assert not link._commands


async def test_first_tokens_of_a_step_come_first_and_others_get_turns_within_it() -> None:
    worker = ScriptedWorker()
    order: list[int] = []
    turns: list[int] = []

    class Ordered(Reader):
        def updated(self, link: WorkerLink, update: pb.Update) -> None:
            order.append(update.branch)

    readers = [Ordered() for _ in range(3 * UPDATES_AT_ONCE)]
    async with serving(worker) as port, linked(port) as (link, _):
        await eventually(lambda: not reason(link))
        branches = [new_branch() for _ in readers]
        *old, new = branches
        for branch, reader in zip(branches, readers, strict=True):
            link.start(pb.Start(branch=branch), reader)
        frame = pb.RunResponse(updates=[pb.Update(branch=branch, ids=[1]) for branch in old])
        worker.frames.put_nowait(frame)
        await eventually(lambda: len(order) == len(old))
        order.clear()

        async def others() -> None:
            while len(order) < len(branches):
                turns.append(len(order))
                await asyncio.sleep(0)

        finish = pb.Finish(reason=pb.FINISH_REASON_STOP)
        last = pb.Update(branch=new, finish=finish)
        updates = [pb.Update(branch=branch, ids=[1]) for branch in branches]
        other = asyncio.create_task(others())
        worker.frames.put_nowait(pb.RunResponse(updates=[*updates, last]))
        await asyncio.wait_for(other, 10)
        await eventually(lambda: len(order) == len(branches) + 1)
    assert order == [new, new, *old]
    assert len({seen for seen in turns if 0 < seen < len(branches)}) >= 2
