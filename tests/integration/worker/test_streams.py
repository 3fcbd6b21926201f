"""Run streams: what routers ask for and get, and what a lost one leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_worker.leases import LOST_STREAM_GRACE_S
from multiverse_worker.models.directory import ModelDirectory
from tests.integration.worker.engines import any_engine, make_engine
from tests.integration.worker.served import ENDLESS, PROMPT, Worker, serving
from tests.integration.worker.stream import PATIENCE_S, text
from tests.unit.worker.client import Client, leases_of
from tests.unit.worker.client import text as ids

pytestmark = any_engine


@pytest.fixture
def expected(engine_name: str, weights: Path) -> tuple[int, ...]:
    """What the engine says without a service around it."""
    engine = make_engine(engine_name, weights)
    try:
        return Client(engine).run(ids(*PROMPT), max_tokens=12).ids
    finally:
        engine.close()


async def test_a_branch_runs_from_start_to_lease(worker: Worker, expected: tuple[int, ...]) -> None:
    stream = worker.stream()
    await stream.start(7, text(*PROMPT), max_tokens=12, length_tail=[5])
    [finish] = await stream.ended(7)
    assert tuple(stream.ids[7]) == expected
    assert finish.reason == pb.FINISH_REASON_LENGTH
    assert list(finish.appended) == [5]
    assert finish.context_tokens == 4 + 12 + 1
    await stream.start(8, text(9), base_key=finish.key, max_tokens=2)
    [on] = await stream.ended(8)
    assert on.reused_tokens == finish.context_tokens
    for lease in (finish.lease, on.lease):
        await stream.release(lease)
    assert (await worker.load(lambda load: load.leases == 0)).running == 0


async def test_a_frame_holds_what_one_step_did_for_all_branches(worker: Worker) -> None:
    stream = worker.stream()
    for branch in (1, 2, 3):
        await stream.start(branch, text(branch, *PROMPT), max_tokens=30)
    await stream.ended(1, 2, 3)
    together = [frame for frame in stream.frames if len(frame.updates) == 3]
    assert len(together) > 1
    for frame in stream.frames:
        assert len({update.branch for update in frame.updates}) == len(frame.updates)


async def test_streams_use_the_same_numbers_without_harm(
    worker: Worker, expected: tuple[int, ...]
) -> None:
    streams = [worker.stream() for _ in range(3)]
    for number, stream in enumerate(streams):
        await stream.start(1, text(*PROMPT), max_tokens=12 - number)
    for number, stream in enumerate(streams):
        await stream.ended(1)
        assert tuple(stream.ids[1]) == expected[: 12 - number]
    keys = {stream.finishes[1].lease for stream in streams}
    assert len(keys) == 3


async def test_an_aborted_branch_ends_and_its_sibling_goes_on(
    worker: Worker, expected: tuple[int, ...]
) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=ENDLESS)
    await stream.start(2, text(*PROMPT), max_tokens=12)
    await stream.until(lambda: bool(stream.ids.get(1)))
    await stream.abort(1)
    aborted, ended = await stream.ended(1, 2)
    assert (aborted.reason, aborted.lease) == (pb.FINISH_REASON_ABORTED, "")
    assert (ended.reason, tuple(stream.ids[2])) == (pb.FINISH_REASON_LENGTH, expected)


async def test_a_cancelled_stream_aborts_its_branches_and_ends_its_leases_after_the_grace(
    worker: Worker,
) -> None:
    lost, other = worker.stream(), worker.stream()
    await lost.start(1, text(*PROMPT), max_tokens=2)
    [finish] = await lost.ended(1)
    await lost.start(2, text(1, 2), max_tokens=ENDLESS)
    await lost.until(lambda: bool(lost.ids.get(2)))
    lost.call.cancel()
    assert (await worker.load(lambda load: load.running == 0)).leases == 1

    async def leases_after(seconds: float) -> set[str]:
        """A branch of the other stream makes the engine look at the clock."""
        worker.clock.now = seconds
        await other.start(int(seconds * 10), text(4), max_tokens=0)
        await other.ended(int(seconds * 10))
        return {lease.id for lease in leases_of(worker.engine)}

    assert finish.lease in await leases_after(LOST_STREAM_GRACE_S - 0.1)
    assert finish.lease not in await leases_after(LOST_STREAM_GRACE_S)


async def test_a_stream_that_the_router_ends_aborts_its_branches(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=ENDLESS)
    await stream.until(lambda: bool(stream.ids.get(1)))
    await stream.call.done_writing()
    async with asyncio.timeout(PATIENCE_S):
        while await stream.call.read() is not grpc.aio.EOF:
            pass
        assert await stream.call.code() is grpc.StatusCode.OK
    await worker.load(lambda load: load.running == 0 and load.waiting == 0)


async def test_streams_that_are_broken_on_command_end_and_abort_what_they_run(
    worker: Worker,
) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=ENDLESS)
    await stream.until(lambda: bool(stream.ids.get(1)))
    worker.service.break_streams()
    assert await stream.broken() is grpc.StatusCode.UNAVAILABLE
    await worker.load(lambda load: load.running == 0)
    again = worker.stream()
    await again.start(1, text(*PROMPT), max_tokens=3)
    [finish] = await again.ended(1)
    assert finish.reason == pb.FINISH_REASON_LENGTH


async def test_many_streams_come_and_go_and_leave_nothing(worker: Worker) -> None:
    for number in range(12):
        stream = worker.stream()
        await stream.start(1, text(number, *PROMPT), max_tokens=ENDLESS)
        await stream.start(2, text(number), max_tokens=3)
        await stream.ended(2)
        stream.call.cancel()
    await worker.load(lambda load: load.running == 0 and load.waiting == 0)
    assert not worker.service._branches


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "fields", "code"),
    [
        ([], {}, "INVALID_ARGUMENT"),
        ([text(4000)], {}, "INVALID_ARGUMENT"),
        ([pb.Item()], {}, "INVALID_ARGUMENT"),
        ([text(1), pb.Item(block=pb.Block(rule=0))], {}, "INVALID_ARGUMENT"),
        ([text(1)], {"base_key": b"unknown"}, "NOT_FOUND"),
        ([text(1)], {"max_tokens": 5000}, "OUT_OF_RANGE"),
    ],
    ids=["empty", "vocabulary", "no item", "no rule", "base", "too long"],
)
async def test_a_refused_start_names_its_status_and_harms_no_other(
    worker: Worker, items: list[pb.Item], fields: dict[str, Any], code: str
) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=30)
    await stream.start(2, *items, **fields)
    good, bad = await stream.ended(1, 2)
    assert (bad.reason, bad.code, bad.lease) == (pb.FINISH_REASON_FAILED, code, "")
    assert bad.message
    assert good.reason == pb.FINISH_REASON_LENGTH


async def test_more_branches_than_allowed_are_refused_until_some_have_ended(
    engine_name: str, weights: Path, served_model: ModelDirectory
) -> None:
    async with serving(engine_name, weights, served_model, max_branches=2) as worker:
        stream = worker.stream()
        for branch in (1, 2, 3):
            await stream.start(branch, text(*PROMPT), max_tokens=ENDLESS)
        [refused] = await stream.ended(3)
        assert refused.code == "RESOURCE_EXHAUSTED"
        await stream.abort(1)
        await stream.ended(1)
        await stream.start(4, text(*PROMPT), max_tokens=1)
        [taken] = await stream.ended(4)
        assert taken.reason == pb.FINISH_REASON_LENGTH
