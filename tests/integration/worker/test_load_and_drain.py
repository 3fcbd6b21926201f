"""Load reports and draining."""

from __future__ import annotations

import asyncio

from multiverse_protos.engine.v1 import engine_pb2 as pb
from tests.integration.worker.engines import any_engine
from tests.integration.worker.served import ENDLESS, PROMPT, Worker
from tests.integration.worker.stream import PATIENCE_S, text

pytestmark = any_engine


async def test_load_reports_count_up_and_follow_the_work(worker: Worker) -> None:
    call = worker.stub.WatchLoad(pb.WatchLoadRequest())
    reports = [await call.read()]
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=ENDLESS)
    async with asyncio.timeout(PATIENCE_S):
        while reports[-1].running != 1:
            reports.append(await call.read())
        await stream.abort(1)
        while reports[-1].running != 0:
            reports.append(await call.read())
    call.cancel()
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
    assert {report.kv_cells for report in reports} == {1024}
    assert reports[0].kv_cells_free == 1024
    assert reports[-1].kv_cells_free < 1024


async def test_a_change_while_a_report_is_written_is_reported_next(worker: Worker) -> None:
    """The watch is read by hand: the change falls between two reads."""
    reports = worker.service.WatchLoad(pb.WatchLoadRequest(), None)
    first = await anext(reports)
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=2)
    await stream.ended(1)
    await worker.load(lambda load: load.leases == 1)
    async with asyncio.timeout(2):
        second = await anext(reports)
    await reports.aclose()
    assert (first.leases, second.leases) == (0, 1)


async def test_a_draining_worker_refuses_starts_and_waits_for_what_runs(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=300)
    await stream.until(lambda: bool(stream.ids.get(1)))
    drain = asyncio.ensure_future(worker.stub.Drain(pb.DrainRequest(grace_s=60)))
    await worker.load(lambda load: load.draining)
    await stream.start(2, text(*PROMPT), max_tokens=1)
    [refused] = await stream.ended(2)
    assert (refused.code, 1 in stream.finishes) == ("UNAVAILABLE", False)
    assert not drain.done()
    [ended] = await stream.ended(1)
    await stream.release(ended.lease)
    async with asyncio.timeout(PATIENCE_S):
        assert (await drain).aborted == 0
    assert (ended.reason, len(stream.ids[1])) == (pb.FINISH_REASON_LENGTH, 300)


async def test_a_draining_worker_lets_a_running_request_fork_and_join(worker: Worker) -> None:
    """It takes no new requests; those that run go on with new branches until they end."""
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=100, request="running")
    await stream.until(lambda: bool(stream.ids.get(1)))
    drain = asyncio.ensure_future(worker.stub.Drain(pb.DrainRequest(grace_s=60)))
    await worker.load(lambda load: load.draining)
    [plan] = await stream.ended(1)
    for branch in (2, 3):
        fields = {"base_key": plan.key, "block": 1, "request": "running"}
        await stream.start(branch, text(5, branch), max_tokens=4, **fields)
    paths = await stream.ended(2, 3)
    assert [path.code for path in paths] == ["", ""]
    contexts = [pb.Context(items=[text(5, branch, *stream.ids[branch])]) for branch in (2, 3)]
    block = pb.Item(block=pb.Block(paths=contexts, rule=pb.JOIN_RULE_STITCH))
    leases = [end.lease for end in (plan, *paths)]
    fields = {"base_key": plan.key, "consumes": leases, "request": "running"}
    await stream.start(4, block, text(6), max_tokens=2, **fields)
    [joined] = await stream.ended(4)
    assert joined.code == ""
    await stream.release(joined.lease)
    async with asyncio.timeout(PATIENCE_S):
        assert (await drain).aborted == 0


async def test_a_drain_without_patience_aborts_what_runs(worker: Worker) -> None:
    stream = worker.stream()
    for branch in (1, 2):
        await stream.start(branch, text(*PROMPT), max_tokens=ENDLESS)
    await stream.until(lambda: bool(stream.ids.get(2)))
    answer = await worker.stub.Drain(pb.DrainRequest(grace_s=0))
    assert answer.aborted == 2
    assert [finish.reason for finish in await stream.ended(1, 2)] == [pb.FINISH_REASON_ABORTED] * 2


async def test_a_drain_of_an_idle_worker_returns_at_once(worker: Worker) -> None:
    async with asyncio.timeout(PATIENCE_S):
        answer = await worker.stub.Drain(pb.DrainRequest(grace_s=3600))
    assert answer.aborted == 0


async def test_a_drain_ends_when_the_last_stream_is_lost(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*PROMPT), max_tokens=ENDLESS)
    await stream.until(lambda: bool(stream.ids.get(1)))
    drain = asyncio.ensure_future(worker.stub.Drain(pb.DrainRequest(grace_s=3600)))
    await worker.load(lambda load: load.draining)
    stream.call.cancel()
    async with asyncio.timeout(PATIENCE_S):
        assert (await drain).aborted == 0
