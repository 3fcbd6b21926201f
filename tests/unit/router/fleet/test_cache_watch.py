"""The prefix index follows what workers tell of their caches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.cache_watch import CacheWatch
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.placement.prefix_index import Place, PrefixIndex, prefix_keys
from multiverse_router.settings import RouterSettings
from multiverse_shared.keys import content_keys
from multiverse_shared.tree import Text
from multiverse_worker.cache_journal import CacheChange, CacheJournal, CacheTelling
from tests.unit.router.fleet.test_memory import MOST_GROWTH, resident
from tests.unit.router.scripted_worker import ScriptedWorker, serving

PREFIXES = 100_000
FULL = 50_000
KEPT = 10_000
CELLS = 20_000  # prefixes that the worker holds


class CachingWorker(ScriptedWorker):
    """Tells what is in its journal; the reports that `loses` names are lost on their way."""

    def __init__(self) -> None:
        super().__init__()
        self.journal = CacheJournal()
        self.asked: list[pb.CacheHeard] = []
        self.loses: set[int] = set()  # by their place in all reports
        self._reports = 0
        self._changed = asyncio.Event()

    def add(self, *changes: CacheChange) -> None:
        self.journal.add(changes)
        self._changed.set()
        self._changed = asyncio.Event()

    def start_again(self) -> None:
        """Another process, at the same address."""
        self.journal = CacheJournal()
        self.frames.put_nowait(None)

    async def WatchLoad(  # noqa: N802
        self, request: pb.WatchLoadRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchLoadResponse]:
        self.asked.append(request.cache)
        telling = CacheTelling(self.journal, request.cache)
        while True:
            changed = self._changed
            message = telling.next()
            if message is not None:
                self._reports += 1
                if self._reports not in self.loses:
                    yield pb.WatchLoadResponse(cache=message)
            await changed.wait()


def place(number: int) -> Place:
    """A context of one token, named by `number`."""
    return Place(number, 1)


def held(index: PrefixIndex, *numbers: int) -> list[bool]:
    return [bool(index.coverage([place(number)])) for number in numbers]


@asynccontextmanager
async def watching(worker: CachingWorker) -> AsyncIterator[PrefixIndex]:
    index = PrefixIndex()
    async with serving(worker) as port:
        link = WorkerLink(f"127.0.0.1:{port}", RouterSettings(), prefixes=index)
        task = asyncio.create_task(link.run())
        try:
            yield index
        finally:
            task.cancel()
            await asyncio.wait([task])


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(0.01)


async def test_what_a_worker_holds_is_found_and_what_it_lost_is_not() -> None:
    worker = CachingWorker()
    worker.add((1, True), (2, True))
    async with watching(worker) as index:
        await eventually(lambda: held(index, 1, 2, 3) == [True, True, False])
        worker.add((2, False), (3, True))
        await eventually(lambda: held(index, 1, 2, 3) == [True, False, True])


async def test_changes_that_were_missed_are_asked_for_again() -> None:
    worker = CachingWorker()
    worker.loses = {2}
    async with watching(worker) as index:
        await eventually(lambda: worker.asked)
        worker.add((1, True))
        await eventually(lambda: worker.journal.sequence == 1)
        async with asyncio.timeout(20):
            while not held(index, 2)[0]:
                worker.add((1, True), (2, True))  # another report: it does not follow
                await asyncio.sleep(0.01)
        assert held(index, 1, 2) == [True, True]
        assert len(worker.asked) == 2
        assert (worker.asked[1].cache, worker.asked[1].sequence) == (worker.journal.cache, 0)


async def test_a_stream_that_broke_goes_on_where_it_was() -> None:
    worker = CachingWorker()
    worker.add((1, True), (2, True))
    async with watching(worker) as index:
        await eventually(lambda: held(index, 1, 2) == [True, True])
        worker.frames.put_nowait(None)
        await eventually(lambda: len(worker.asked) == 2)
        assert worker.asked[1] == pb.CacheHeard(cache=worker.journal.cache, sequence=2)
        worker.add((1, False))
        await eventually(lambda: held(index, 1, 2) == [False, True])


async def test_what_a_worker_had_before_it_was_started_again_is_forgotten() -> None:
    worker = CachingWorker()
    worker.add((1, True))
    async with watching(worker) as index:
        await eventually(lambda: held(index, 1) == [True])
        index.sent("other:1", [place(1)])
        worker.start_again()
        await eventually(lambda: index.coverage([place(1)]) == {"other:1": 1})


async def test_a_worker_that_tells_nothing_is_forgotten_with_its_stream() -> None:
    index = PrefixIndex()
    async with serving(ScriptedWorker()) as port:
        address = f"127.0.0.1:{port}"
        link = WorkerLink(address, RouterSettings(), prefixes=index)
        task = asyncio.create_task(link.run())
        try:
            await eventually(lambda: link.connected)
            index.sent(address, [place(1)])
            link.give_up("a test")
            await eventually(lambda: held(index, 1) == [False])
        finally:
            task.cancel()
            await asyncio.wait([task])


def test_a_prefix_that_another_router_sent_there_is_known_by_its_digests() -> None:
    """And by those behind it alone, since the index may have forgotten the first ones."""
    index, context = PrefixIndex(), (Text(tuple(range(200))),)
    keys = content_keys(context, "namespace", b"salt")
    watch = CacheWatch(index, "w:1")
    digests = [int.from_bytes(checkpoint.key[:8], "big") for checkpoint in keys]
    watch.told(pb.CacheChanges(cache="c", anew=True, held=digests[:3], sequence=3))
    assert index.coverage(prefix_keys(context, "namespace", b"salt")) == {"w:1": 192}
    watch.told(pb.CacheChanges(cache="c", after=3, gone=digests[:1], sequence=4))
    assert index.coverage(prefix_keys(context, "namespace", b"salt")) == {"w:1": 192}
    assert index.coverage(prefix_keys(context, "namespace", b"another")) == {}


def changes_of(prefixes: Iterable[int]) -> Iterable[list[CacheChange]]:
    """A worker with room for so many: what it held for longest goes."""
    for number in prefixes:
        gone = [(number - CELLS, False)] if number >= CELLS else []
        yield [(number, True), *gone]


def test_memory_is_flat_while_workers_tell_a_hundred_thousand_prefixes() -> None:
    index, journals = PrefixIndex(KEPT), [CacheJournal(kept=1000) for _ in range(8)]
    watches = [CacheWatch(index, f"w:{number}") for number in range(8)]
    tellings = [CacheTelling(journal, pb.CacheHeard()) for journal in journals]
    before = 0
    for number, changes in enumerate(changes_of(range(PREFIXES))):
        if number == FULL:
            before = resident()
        turn = number % 8
        journals[turn].add(changes)
        message = tellings[turn].next()
        assert message is not None
        assert watches[turn].told(message)
    assert resident() - before < MOST_GROWTH
    assert len(index) == KEPT
