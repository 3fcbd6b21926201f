"""A gRPC worker without an engine: serves given files, and does with commands what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import (
    EngineServiceServicer,
    add_EngineServiceServicer_to_server,
)
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import WorkerUnavailable
from tests.unit.router.served import model_files, model_info

END: pb.RunResponse | None = None


class ScriptedWorker(EngineServiceServicer):
    """`frames` are sent as they are put there (END closes the stream); `commands` came in."""

    def __init__(self) -> None:
        self.files = model_files()
        self.streams = 0
        self.commands: list[pb.RunRequest] = []
        self.together: list[int] = []  # commands of each message
        self.frames: asyncio.Queue[pb.RunResponse | None] = asyncio.Queue()

    async def Run(  # noqa: N802
        self, requests: AsyncIterator[pb.RunRequest], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.RunResponse]:
        self.streams += 1
        reading = asyncio.create_task(self._read(requests))
        try:
            while (frame := await self.frames.get()) is not None:
                yield frame
        finally:
            reading.cancel()

    async def _read(self, requests: AsyncIterator[pb.RunRequest]) -> None:
        async for request in requests:
            self.commands += (request, *request.more)
            self.together.append(1 + len(request.more))

    async def GetModelInfo(  # noqa: N802
        self, request: pb.GetModelInfoRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetModelInfoResponse:
        return model_info()

    async def GetModelFiles(  # noqa: N802
        self, request: pb.GetModelFilesRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.GetModelFilesResponse]:
        for name, data in self.files.items():
            half = len(data) // 2
            yield pb.GetModelFilesResponse(name=name, data=data[:half])
            yield pb.GetModelFilesResponse(name=name, data=data[half:], last=True)


@asynccontextmanager
async def serving(worker: ScriptedWorker, port: int = 0) -> AsyncIterator[int]:
    """The port that `worker` listens on."""
    server = grpc.aio.server()
    add_EngineServiceServicer_to_server(worker, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=None)


def link_to(port: int) -> WorkerLink:
    return WorkerLink(f"127.0.0.1:{port}", RouterSettings(max_message_mib=4))


@asynccontextmanager
async def linked(port: int) -> AsyncIterator[tuple[WorkerLink, asyncio.Task[None]]]:
    """A link that runs towards `port`."""
    link = link_to(port)
    task = asyncio.create_task(link.run())
    try:
        yield link, task
    finally:
        task.cancel()
        await asyncio.wait([task])


def reason(link: WorkerLink) -> str:
    """Why the link has no model; empty when it has one."""
    try:
        return "" if link.model else "none"
    except WorkerUnavailable as error:
        return error.message
