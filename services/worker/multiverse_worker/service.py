"""The gRPC engine service over one engine thread.

Knows streams and files. Must not know text, dialects or how an engine works.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator

import grpc
from grpc_health.v1 import health, health_pb2

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceServicer
from multiverse_shared.errors import CapacityExceeded, MultiverseError, WorkerUnavailable
from multiverse_shared.tracing import Tracer
from multiverse_worker.cache_journal import CacheChange, CacheJournal, CacheTelling
from multiverse_worker.contract import (
    BranchId,
    Capability,
    Engine,
    Finish,
    FinishReason,
    Load,
    Update,
)
from multiverse_worker.engine_thread import EngineThread
from multiverse_worker.metrics import WorkerMetrics
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.outbox import Outbox
from multiverse_worker.spans import BranchSpans
from multiverse_worker.wire import frame_of, load_of, start_of

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["EngineService"].full_name
FILE_CHUNK = 1 << 20
LOAD_INTERVAL_S = 0.02
_CAPABILITIES = {Capability.FREE_POSITIONS: pb.CAPABILITY_FREE_POSITIONS}


class Service(EngineServiceServicer):
    """One per process. `broken` is set when the engine has failed.

    `health` says SERVING while new requests are taken.
    """

    def __init__(
        self,
        engine: Engine,
        model: ModelDirectory,
        max_branches: int,
        tracer: Tracer | None = None,
    ) -> None:
        self._info = engine.info
        self._model = model
        self._files = model.text_files
        self._files_digest = model.files_digest
        self._max_branches = max_branches
        self._load = engine.load()
        self.metrics = WorkerMetrics(lambda: self._load)
        self._spans = BranchSpans(tracer or Tracer(), engine.info.engine)
        self._streams = itertools.count(1)
        self._outboxes: dict[int, Outbox] = {}
        self._loop = asyncio.get_running_loop()
        self._breaking = asyncio.Event()  # set, and replaced, to break the streams of the moment
        self._branches: set[BranchId] = set()
        self._draining = False
        self._changed = asyncio.Event()  # set, and replaced, at each change of load
        self.broken = asyncio.Event()
        self.health = health.aio.HealthServicer()
        self._journal = CacheJournal()
        self._engine = EngineThread(engine, self._deliver, self._fail, self._cached)

    # -- the stream ----------------------------------------------------------------------------

    async def Run(  # noqa: N802 - the name is the protocol's
        self, requests: AsyncIterator[pb.RunRequest], context: grpc.aio.ServicerContext
    ) -> None:
        stream = next(self._streams)
        outbox = self._outboxes[stream] = Outbox()
        breaking = self._breaking
        try:
            async with asyncio.TaskGroup() as tasks:
                parts = [
                    tasks.create_task(self._read(requests, stream, outbox)),
                    tasks.create_task(self._write(outbox, context)),
                    tasks.create_task(breaking.wait()),
                ]
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                for part in parts:
                    part.cancel()
            if breaking.is_set():
                await context.abort(grpc.StatusCode.UNAVAILABLE, "broken on command")
        finally:
            del self._outboxes[stream]
            self._branches = {b for b in self._branches if b.stream != stream}
            self._spans.lost(stream)
            self._engine.lose_stream(stream)

    async def _read(
        self, requests: AsyncIterator[pb.RunRequest], stream: int, outbox: Outbox
    ) -> None:
        async for request in requests:
            with self._engine.together():
                for command in (request, *request.more):
                    self._command(command, stream, outbox)

    async def _write(self, outbox: Outbox, context: grpc.aio.ServicerContext) -> None:
        while True:
            await context.write(frame_of(await outbox.take()))

    def break_streams(self) -> None:
        """End all streams of routers as a broken connection would. From any thread."""

        def broken() -> None:
            self._breaking.set()
            self._breaking = asyncio.Event()

        self._loop.call_soon_threadsafe(broken)

    def _command(self, request: pb.RunRequest, stream: int, outbox: Outbox) -> None:
        match request.WhichOneof("command"):
            case "start":
                branch = BranchId(stream, request.start.branch)
                try:
                    start = start_of(request.start, stream)
                    self._check(request.start)
                    self._branches.add(branch)
                    self._spans.begun(start, request.start.traceparent)
                    self._engine.start(start)
                except MultiverseError as error:
                    if branch in self._branches:  # a number in use: it ends once
                        self._engine.abort(branch)
                    else:
                        finish = Finish(FinishReason.FAILED, error=error)
                        outbox.put(Update(branch, finish=finish))
            case "abort":
                self._engine.abort(BranchId(stream, request.abort.branch))
            case "release":
                self._engine.release(request.release.lease, stream)

    def _check(self, start: pb.Start) -> None:
        goes_on = start.base_key or start.consumes or start.HasField("block")
        if self._draining and not goes_on:
            raise WorkerUnavailable("the worker is draining; use another one")
        if len(self._branches) >= self._max_branches and not goes_on:
            raise CapacityExceeded(f"{self._max_branches} branches are queued; try again later")

    def _deliver(self, updates: list[Update], load: Load) -> None:
        for update in updates:
            self._spans.told(update)
            if update.finish:
                self._branches.discard(update.branch)
            outbox = self._outboxes.get(update.branch.stream)
            if outbox:
                outbox.put(update)
        self._load = load
        self.metrics.stepped(load)
        self._has_changed()

    def _cached(self, changes: list[CacheChange]) -> None:
        self._journal.add(changes)
        self._has_changed()

    def _has_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _fail(self) -> None:
        self.broken.set()

    # -- the rest --------------------------------------------------------------------------------

    async def GetModelFiles(  # noqa: N802
        self, request: pb.GetModelFilesRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.GetModelFilesResponse]:
        for name, data in self._files.items():
            digest = hashlib.sha256(data).digest()
            for at in range(0, max(1, len(data)), FILE_CHUNK):
                chunk = data[at : at + FILE_CHUNK]
                last = at + FILE_CHUNK >= len(data)
                yield pb.GetModelFilesResponse(
                    name=name, data=chunk, last=last, sha256=digest if last else b""
                )

    async def GetModelInfo(  # noqa: N802
        self, request: pb.GetModelInfoRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetModelInfoResponse:
        info = self._info
        return pb.GetModelInfoResponse(
            model=self._model.name,
            files_digest=self._files_digest,
            namespace=info.namespace,
            engine=info.engine,
            engine_version=info.version,
            context_length=info.context_length,
            kv_cells=info.kv_cells,
            vocab_size=info.vocab_size,
            capabilities=[_CAPABILITIES[capability] for capability in info.capabilities],
        )

    async def WatchLoad(  # noqa: N802
        self, request: pb.WatchLoadRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.WatchLoadResponse]:
        telling = None
        if request.HasField("cache"):
            telling = CacheTelling(self._journal, request.cache)
        for sequence in itertools.count(1):
            changed = self._changed  # before the report: what changes while it is written counts
            cache = telling.next() if telling else None
            yield load_of(self._load, sequence, self._draining, cache)
            if not telling or not telling.behind:
                await changed.wait()
            await asyncio.sleep(LOAD_INTERVAL_S)  # at most so many reports

    async def Drain(  # noqa: N802
        self, request: pb.DrainRequest, context: grpc.aio.ServicerContext
    ) -> pb.DrainResponse:
        return pb.DrainResponse(aborted=await self.drain(request.grace_s))

    async def drain(self, grace_s: float) -> int:
        """Take no new requests; after `grace_s` abort the running ones and count them."""
        self._draining = True
        self._has_changed()
        await self.set_healthy(False)
        try:
            async with asyncio.timeout(grace_s):
                # A request without branches but with leases is about to fork or to join.
                while self._branches or self._load.leases:
                    await self._changed.wait()
        except TimeoutError:
            pass
        left = list(self._branches)
        for branch in left:
            self._engine.abort(branch)
        return len(left)

    @property
    def takes_requests(self) -> bool:
        """What `/ready` says."""
        return not self._draining and not self.broken.is_set()

    async def set_healthy(self, healthy: bool) -> None:
        """What health checks are told."""
        status = health_pb2.HealthCheckResponse
        for name in ("", SERVICE_NAME):
            await self.health.set(name, status.SERVING if healthy else status.NOT_SERVING)

    async def close(self) -> None:
        await self._engine.stop()
