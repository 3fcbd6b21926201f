"""A simulator worker as `python -m multiverse_worker` runs it, that keeps notes.

MULTIVERSE_WORKER_... as ever; the only argument is the file of notes.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_worker.launch import launch
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import listen
from multiverse_worker.service import Service
from multiverse_worker.settings import WorkerSettings
from tests.bench.router.notes import NoteBook


class NotedService(Service):
    """Notes when a start was read from a stream, and when the branch's first ids were written."""

    notes: NoteBook

    async def Run(self, requests: AsyncIterator[pb.RunRequest], context: Any) -> None:  # noqa: N802
        await super().Run(self._read_noted(requests), _Noted(context, self.notes))

    async def _read_noted(
        self, requests: AsyncIterator[pb.RunRequest]
    ) -> AsyncIterator[pb.RunRequest]:
        async for request in requests:
            for command in (request, *request.more):
                if command.HasField("start") and command.start.sampling.stream == "0":
                    self.notes.arrived(command.start.branch, command.start.sampling.seed)
            yield request


class _Noted:
    """The part of a gRPC context that `Run` uses."""

    def __init__(self, context: Any, notes: NoteBook) -> None:
        self._context = context
        self._notes = notes
        self.abort = context.abort

    async def write(self, frame: pb.RunResponse) -> None:
        waiting = self._notes.waiting
        if waiting:
            for update in frame.updates:
                if update.branch in waiting and update.ids:
                    self._notes.written(update.branch)
        await self._context.write(frame)


async def serve(settings: WorkerSettings, notes: Path) -> None:
    model = ModelDirectory(settings.model, settings.weights, False)
    service = NotedService(launch(model, settings), model, settings.max_branches)
    service.notes = NoteBook(notes)
    server, _ = await listen(service, settings)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(grace=0)
    await service.close()


if __name__ == "__main__":
    asyncio.run(serve(WorkerSettings(), Path(sys.argv[1])))
