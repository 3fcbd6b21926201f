"""The same load straight to the worker: all branches on one gRPC stream, as a router has them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from tests.bench.router.http import TIMEOUT_S, BenchError
from tests.bench.router.load import Answer, Ask, Connect, Plan

PROMPT_IDS = tuple(range(20, 56))


class Direct:
    """The stream, and who waits on it."""

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self._call = call
        self._numbers = itertools.count(1)
        self._commands: asyncio.Queue[pb.RunRequest] = asyncio.Queue()  # one write at a time
        self._waiting: dict[int, tuple[Answer, asyncio.Future[pb.Finish]]] = {}

    async def read(self) -> None:
        async for frame in self._call:
            now = time.monotonic()
            for update in frame.updates:
                answer, done = self._waiting[update.branch]
                answer.first = answer.first or now
                answer.tokens += len(update.ids)
                if update.HasField("finish"):
                    done.set_result(update.finish)
                    del self._waiting[update.branch]

    async def write(self) -> None:
        while True:
            await self._call.write(await self._commands.get())

    async def ask(self, answer: Answer, tokens: int) -> None:
        branch = next(self._numbers)
        done: asyncio.Future[pb.Finish] = asyncio.get_running_loop().create_future()
        self._waiting[branch] = answer, done
        start = pb.Start(
            branch=branch,
            request=f"r{branch}",
            context=pb.Context(items=[pb.Item(text=pb.Text(ids=PROMPT_IDS))]),
            max_tokens=tokens,
            sampling=pb.Sampling(seed=answer.seed, stream="0"),
        )
        answer.sent = time.monotonic()
        self._commands.put_nowait(pb.RunRequest(start=start))
        async with asyncio.timeout(TIMEOUT_S):
            finish = await done
        if finish.reason != pb.FINISH_REASON_LENGTH:
            raise BenchError(f"a branch ended with {finish}")
        self._commands.put_nowait(pb.RunRequest(release=pb.Release(lease=finish.lease)))


@asynccontextmanager
async def direct(port: int, plan: Plan) -> AsyncIterator[Connect]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = EngineServiceStub(channel).Run()
        stream = Direct(call)
        parts = [asyncio.create_task(stream.read()), asyncio.create_task(stream.write())]

        async def ask(answer: Answer) -> None:
            await stream.ask(answer, plan.tokens)

        async def connect() -> Ask:
            return ask

        try:
            yield connect
        finally:
            call.cancel()
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
