"""A router's side of one Run stream, over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub

PATIENCE_S = 20.0


def text(*ids: int) -> pb.Item:
    return pb.Item(text=pb.Text(ids=ids))


class Stream:
    """Sends commands and collects what each branch said."""

    def __init__(self, stub: EngineServiceStub, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self.call: grpc.aio.StreamStreamCall = stub.Run()
        self.frames: list[pb.RunResponse] = []
        self.ids: dict[int, list[int]] = {}
        self.finishes: dict[int, pb.Finish] = {}

    async def start(self, branch: int, *items: pb.Item, **fields: Any) -> None:
        fields.setdefault("request", f"r{branch}")
        start = pb.Start(branch=branch, context=pb.Context(items=items), **fields)
        await self.call.write(pb.RunRequest(start=start))

    async def abort(self, branch: int) -> None:
        await self.call.write(pb.RunRequest(abort=pb.Abort(branch=branch)))

    async def release(self, lease: str) -> None:
        await self.call.write(pb.RunRequest(release=pb.Release(lease=lease)))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read frames until the condition holds."""
        async with asyncio.timeout(self._patience_s):
            while not condition():
                frame = await self.call.read()
                assert frame is not grpc.aio.EOF, "the worker ended the stream"
                self.frames.append(frame)
                for update in frame.updates:
                    self.ids.setdefault(update.branch, []).extend(update.ids)
                    if update.HasField("finish"):
                        assert update.branch not in self.finishes, "a branch ended twice"
                        self.finishes[update.branch] = update.finish

    async def broken(self) -> grpc.StatusCode:
        """Read on until the stream breaks; how it broke."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while await self.call.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError as error:
                return error.code()
        raise AssertionError("the stream ended in order")

    async def ended(self, *branches: int) -> list[pb.Finish]:
        await self.until(lambda: all(branch in self.finishes for branch in branches))
        return [self.finishes[branch] for branch in branches]
