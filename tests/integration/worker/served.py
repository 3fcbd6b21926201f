"""A worker's service behind a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import listen
from multiverse_worker.service import FILE_CHUNK, Service
from multiverse_worker.settings import WorkerSettings
from tests.integration.worker.engines import make_engine
from tests.integration.worker.stream import PATIENCE_S, Stream
from tests.unit.worker.client import AnyEngine

TOKENIZER = bytes(range(256)) * (FILE_CHUNK // 256) * 2 + b"end"
PROMPT = (3, 14, 15, 92)
SIM_SPEED = 20  # a step takes about a millisecond, as one of the tiny model does
ENDLESS = 900  # tokens: more than any test waits for


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Worker:
    """A served engine and a connection to it."""

    service: Service
    engine: AnyEngine
    channel: grpc.aio.Channel
    clock: Clock
    stub: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stub = EngineServiceStub(self.channel)

    def stream(self) -> Stream:
        return Stream(self.stub)

    async def load(self, condition: Callable[[pb.WatchLoadResponse], bool]) -> pb.WatchLoadResponse:
        """The first report for which the condition holds."""
        call = self.stub.WatchLoad(pb.WatchLoadRequest())
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for report in call:
                    if condition(report):
                        return report
        finally:
            call.cancel()
        raise AssertionError("the worker ended the watch")


@asynccontextmanager
async def serving(
    engine_name: str, weights: Path, model: ModelDirectory, *, max_branches: int = 64
) -> AsyncIterator[Worker]:
    clock = Clock()
    pace = {"speed": SIM_SPEED} if engine_name == "sim" else {}
    engine = make_engine(engine_name, weights, clock, **pace)
    service = Service(engine, model, max_branches)
    settings = WorkerSettings(model=model.path, port=0)
    server, port = await listen(service, settings)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Worker(service, engine, channel, clock)
    finally:
        await server.stop(0)
        await service.close()
