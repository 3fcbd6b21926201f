"""Load reports tell what the cache holds, to those who ask."""

from __future__ import annotations

import asyncio

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.keys import content_keys, short_key
from multiverse_shared.tree import Text
from tests.integration.worker.engines import any_engine
from tests.integration.worker.served import Worker
from tests.integration.worker.stream import PATIENCE_S, text

pytestmark = any_engine
LONG = tuple(n % 90 for n in range(200))


def chunks(worker: Worker) -> set[int]:
    """What names the full chunks of `LONG`."""
    keys = content_keys((Text(LONG),), worker.engine.info.namespace)
    return {short_key(one.key) for one in keys if one.tokens % 64 == 0}


async def heard(worker: Worker, known: pb.CacheHeard, *, until: set[int]) -> list[pb.CacheChanges]:
    """What a watch tells until it has told all of `until`."""
    call = worker.stub.WatchLoad(pb.WatchLoadRequest(cache=known))
    told: list[pb.CacheChanges] = []
    async with asyncio.timeout(PATIENCE_S):
        async for report in call:
            if report.HasField("cache"):
                told.append(report.cache)
            if told and until <= {digest for one in told for digest in one.held}:
                break
    call.cancel()
    return told


async def test_what_is_computed_is_told_and_told_again_to_who_comes_later(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*LONG), max_tokens=2)
    await stream.ended(1)
    first = await heard(worker, pb.CacheHeard(), until=chunks(worker))
    assert first[0].anew
    known = pb.CacheHeard(cache=first[-1].cache, sequence=first[-1].sequence)
    [again] = await heard(worker, known, until=set())
    assert again == pb.CacheChanges(
        cache=known.cache, after=known.sequence, sequence=known.sequence
    )
    other = await heard(worker, pb.CacheHeard(cache="of another process"), until=chunks(worker))
    assert other[0].anew


async def test_what_is_forgotten_is_told(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*LONG), max_tokens=0)
    [ended] = await stream.ended(1)
    call = worker.stub.WatchLoad(pb.WatchLoadRequest(cache=pb.CacheHeard()))
    holds: set[int] = set()
    async with asyncio.timeout(PATIENCE_S):
        while not chunks(worker) <= holds:
            holds |= set((await call.read()).cache.held)
        await stream.release(ended.lease)
        for branch in range(2, 8):  # more than the pool has room for
            await stream.start(branch, text(*(branch, *LONG)), max_tokens=0)
            [ended] = await stream.ended(branch)
            await stream.release(ended.lease)
        while chunks(worker) & holds:
            holds -= set((await call.read()).cache.gone)
    call.cancel()


async def test_who_does_not_ask_is_told_nothing(worker: Worker) -> None:
    stream = worker.stream()
    await stream.start(1, text(*LONG), max_tokens=0)
    await stream.ended(1)
    report = await worker.load(lambda load: load.leases == 1)
    assert not report.HasField("cache")
