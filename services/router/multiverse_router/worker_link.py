"""The one stream between this router and its worker, shared by all requests.

Knows commands and frames. Must not know dialects or text. Reconnects by itself; requests that
were open when the stream broke are told so.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.model import ServedModel
from multiverse_router.settings import Positions, RouterSettings
from multiverse_router.worker_channel import open_channel
from multiverse_shared.errors import InvalidRequest, MultiverseError, WorkerUnavailable
from multiverse_shared.limits import Limits

CONNECT_TIMEOUT_S = 10.0
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
# What grpc.aio says of a stream that ends while a command is being written: the failed write
# hides the status that the worker sent.
_WRITE_FAILED = "Internal error from Core"

log = logging.getLogger(__name__)


class Channel:
    """One request's part of the stream. Its inbox is bounded by the request's token budget."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link
        self._inbox: asyncio.Queue[pb.Update | MultiverseError] = asyncio.Queue()
        self._live: set[int] = set()

    def new_branch(self) -> int:
        return self._link.new_branch(self)

    def start(self, message: pb.Start) -> None:
        self._live.add(message.branch)
        self._link.send(pb.RunRequest(start=message))

    def abort(self, branch: int) -> None:
        if branch in self._live:
            self._live.discard(branch)
            self._link.forget(branch)
            self._link.send(pb.RunRequest(abort=pb.Abort(branch=branch)))

    def release(self, lease: str) -> None:
        self._link.send(pb.RunRequest(release=pb.Release(lease=lease)))

    async def update(self) -> pb.Update:
        """The next thing that happened to a branch; raises when the stream broke."""
        item = await self._inbox.get()
        if isinstance(item, MultiverseError):
            raise item
        if item.HasField("finish"):
            self._live.discard(item.branch)
        return item

    def put(self, item: pb.Update | MultiverseError) -> None:
        self._inbox.put_nowait(item)

    def close(self) -> None:
        """Abort all that still runs."""
        for branch in list(self._live):
            self.abort(branch)
        while not self._inbox.empty():
            item = self._inbox.get_nowait()
            if isinstance(item, pb.Update) and item.finish.lease:
                self.release(item.finish.lease)


class WorkerLink:
    """Run `run` in a task for as long as the router lives."""

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._address = settings.worker
        self._positions = settings.positions
        self._history = settings.largest_limits
        size = settings.max_message_mib << 20
        self._options = [
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", size),
            ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", int(settings.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", 5_000),
        ]
        self._numbers = itertools.count(1)
        self._channels: dict[int, Channel] = {}  # by branch
        self._open: set[Channel] = set()
        self._commands: deque[pb.RunRequest] = deque()
        self._has_commands = asyncio.Event()
        self._model: ServedModel | None = None
        self._name = ""
        self._reason = "not connected yet"
        self.refused = False  # the worker is there, but its model can't be served

    @property
    def model(self) -> ServedModel:
        """The worker's model; WorkerUnavailable while there is no connection."""
        if self._model is None:
            raise WorkerUnavailable(f"worker {self._address}: {self._reason}")
        return self._model

    @property
    def connected(self) -> bool:
        return self._model is not None

    @property
    def known_model(self) -> str:
        """The name of the model that is there, or was last; empty before the first."""
        return self._model.name if self._model else self._name

    @property
    def open_requests(self) -> int:
        return len(self._open)

    @contextmanager
    def channel(self) -> Iterator[Channel]:
        """A channel for one request; whatever it left running is aborted at the end."""
        assert self.model
        channel = Channel(self)
        self._open.add(channel)
        try:
            yield channel
        finally:
            channel.close()
            self._open.discard(channel)

    def new_branch(self, channel: Channel) -> int:
        number = next(self._numbers)
        self._channels[number] = channel
        return number

    def forget(self, branch: int) -> None:
        self._channels.pop(branch, None)

    def send(self, command: pb.RunRequest) -> None:
        """Queue a command; dropped when there is no connection (the worker ended all then).

        The queue is bounded by requests in flight times the paths each may have.
        """
        if self._model is not None:
            self._commands.append(command)
            self._has_commands.set()

    async def run(self) -> None:
        """Connect, serve, and connect again, until cancelled."""
        delay = FIRST_RETRY_S
        while True:
            try:
                async with open_channel(self._address, self._settings, self._options) as channel:
                    stub = EngineServiceStub(channel)
                    async with asyncio.timeout(CONNECT_TIMEOUT_S):
                        model = await _fetch_model(stub, self._positions, self._history)
                    delay = FIRST_RETRY_S
                    await self._serve(stub, model)
            except (grpc.aio.AioRpcError, TimeoutError, MultiverseError) as error:
                self._reason = _describe(error)
                self.refused = isinstance(error, InvalidRequest)
                _raise_if_cancelled()
            finally:
                self._lost()
            log.warning("worker %s: %s", self._address, self._reason)
            await asyncio.sleep(delay)
            delay = min(LAST_RETRY_S, delay * 2)

    async def _serve(self, stub: EngineServiceStub, model: ServedModel) -> None:
        self._commands.clear()
        call = stub.Run()
        sender = asyncio.create_task(self._send_commands(call))
        self._model = model
        self.refused = False
        log.info("worker %s serves %s", self._address, model.name)
        try:
            async for frame in call:
                for update in frame.updates:
                    self._dispatch(update)
            self._reason = "the worker closed the stream"
        finally:
            sender.cancel()
            call.cancel()

    async def _send_commands(self, call: grpc.aio.StreamStreamCall) -> None:
        try:
            while True:
                await self._has_commands.wait()
                self._has_commands.clear()
                while self._commands:
                    await call.write(self._commands.popleft())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the stream broke: its reader says so

    def _dispatch(self, update: pb.Update) -> None:
        channel = self._channels.get(update.branch)
        if channel is None:
            self._release_orphan(update)
            return
        if update.HasField("finish"):
            self.forget(update.branch)
        channel.put(update)

    def _release_orphan(self, update: pb.Update) -> None:
        """A branch that was given up ended before the worker heard of it."""
        if update.finish.lease:
            self.send(pb.RunRequest(release=pb.Release(lease=update.finish.lease)))

    def _lost(self) -> None:
        self._name = self.known_model
        self._model = None
        self._channels.clear()
        for channel in self._open:
            channel.put(WorkerUnavailable(f"worker {self._address}: {self._reason}"))


async def _fetch_model(
    stub: EngineServiceStub, positions: Positions, history: Limits
) -> ServedModel:
    info = await stub.GetModelInfo(pb.GetModelInfoRequest())
    files: dict[str, bytearray] = {}
    chunks: AsyncIterator[pb.GetModelFilesResponse] = stub.GetModelFiles(pb.GetModelFilesRequest())
    async for chunk in chunks:
        files.setdefault(chunk.name, bytearray()).extend(chunk.data)
    return ServedModel.of(
        info, {name: bytes(data) for name, data in files.items()}, positions, history
    )


def _raise_if_cancelled() -> None:
    """grpc.aio may answer a cancellation with the error of a stream that broke just then."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def _describe(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        if error.details() == _WRITE_FAILED:
            return "the stream ended while a command was being sent"
        return f"{error.code().name}: {error.details()}"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    return str(error)
