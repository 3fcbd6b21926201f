"""The one stream between this router and one worker, shared by all requests.

Knows commands and frames. Must not know dialects, text or other workers. Reconnects by itself;
whoever had branches open when the stream broke is told so.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.fleet.cache_watch import CacheWatch
from multiverse_router.fleet.models import Models
from multiverse_router.model import ServedModel
from multiverse_router.placement.prefix_index import PrefixIndex
from multiverse_router.settings import RouterSettings
from multiverse_router.worker_channel import open_channel
from multiverse_shared.cancellation import raise_if_cancelled
from multiverse_shared.errors import InvalidRequest, MultiverseError, WorkerUnavailable

CONNECT_TIMEOUT_S = 10.0
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
COMMANDS_BYTES = 1 << 20  # of a message with more than one
UPDATES_AT_ONCE = 4  # some 1 ms of work, with what their readers do then
# What grpc.aio says of a stream that ends while a command is being written: the failed write
# hides the status that the worker sent.
_WRITE_FAILED = "Internal error from Core"
_numbers = itertools.count(1)  # of branches: unique in this process, so on every stream

log = logging.getLogger(__name__)


class Subscriber(Protocol):
    """Whoever started branches on a link. Called on the event loop; must not block."""

    def updated(self, link: WorkerLink, update: pb.Update) -> None:
        """Something happened to a branch."""

    def lost(self, link: WorkerLink, branches: list[int], reason: str) -> None:
        """The stream broke: these branches are gone, and every lease on this worker."""


@dataclass(slots=True)
class _Flight:
    """One branch on the worker."""

    subscriber: Subscriber
    tokens: int  # of its context, when it was started
    loading: int  # of these, what the worker has to compute before the branch says anything
    told: bool = False  # it has said something


class WorkerLink:
    """Run `run` in a task for as long as the worker belongs to the fleet.

    `changed` is called when the worker comes, goes, or begins to drain; `prefixes` follows what
    it says of its cache.
    """

    def __init__(
        self,
        address: str,
        settings: RouterSettings,
        models: Models | None = None,
        changed: Callable[[], None] = lambda: None,
        prefixes: PrefixIndex | None = None,
    ) -> None:
        self.address = address
        self._settings = settings
        self._models = models or Models(settings)
        self._changed = changed
        index = PrefixIndex(0) if prefixes is None else prefixes
        self._cache = CacheWatch(index, address)
        size = settings.max_message_mib << 20
        self._options = [
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", size),
            ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", int(settings.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.initial_reconnect_backoff_ms", int(FIRST_RETRY_S * 1000)),
            ("grpc.max_reconnect_backoff_ms", int(LAST_RETRY_S * 1000)),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._flights: dict[int, _Flight] = {}  # by branch
        self.tokens = 0  # of all contexts in flight
        self.loading = 0  # of these, what is still to be computed
        self.others = 0  # branches that others had there at the last report
        self._commands: deque[pb.RunRequest] = deque()
        self._has_commands = asyncio.Event()
        self._model: ServedModel | None = None
        self._call: grpc.aio.StreamStreamCall | None = None
        self._name = ""
        self._reason = "not connected yet"
        self.stream = 0  # rises with each connection: leases of an earlier one are gone
        self.refused = False  # the worker is there, but its model can't be served
        self.load: pb.WatchLoadResponse | None = None  # its last report on this stream
        self.load_at = 0.0  # loop time of that report
        self.progress_at = 0.0  # loop time at which something was last seen to be computed

    # -- who is there --------------------------------------------------------------------------

    @property
    def model(self) -> ServedModel:
        """The worker's model; WorkerUnavailable while there is no connection."""
        if self._model is None:
            raise WorkerUnavailable(self.reason)
        return self._model

    @property
    def reason(self) -> str:
        """Why there is no connection."""
        return f"worker {self.address}: {self._reason}"

    @property
    def connected(self) -> bool:
        return self._model is not None

    @property
    def known_model(self) -> str:
        """The name of the model that is there, or was last; empty before the first."""
        return self._model.name if self._model else self._name

    @property
    def draining(self) -> bool:
        return self.load is not None and self.load.draining

    @property
    def branches(self) -> int:
        """Branches in flight: counted here, from start to finish, abort or loss."""
        return len(self._flights)

    @property
    def subscribers(self) -> set[Subscriber]:
        """Who has branches in flight."""
        return {flight.subscriber for flight in self._flights.values()}

    # -- commands ------------------------------------------------------------------------------

    def start(
        self, message: pb.Start, subscriber: Subscriber, tokens: int = 0, loading: int = 0
    ) -> None:
        """Start a branch whose number is from `new_branch`; its context has so many tokens."""
        if not self._flights:
            self.progress_at = asyncio.get_running_loop().time()
        self._flights[message.branch] = _Flight(subscriber, tokens, loading)
        self.tokens += tokens
        self.loading += loading
        self.send(pb.RunRequest(start=message))

    def abort(self, branch: int) -> None:
        """Give a branch up; one that is not in flight is left as it is."""
        if self._land(branch):
            self.send(pb.RunRequest(abort=pb.Abort(branch=branch)))

    def release(self, lease: str) -> None:
        if lease:
            self.send(pb.RunRequest(release=pb.Release(lease=lease)))

    def send(self, command: pb.RunRequest) -> None:
        """Queue a command; dropped when there is no connection (the worker ended all then).

        The queue is bounded by requests in flight times the paths each may have.
        """
        if self._model is not None:
            self._commands.append(command)
            self._has_commands.set()

    def give_up(self, reason: str) -> None:
        """Break the stream: what is on it is lost, and the worker is connected anew."""
        self._reason = reason
        if self._call is not None:
            self._call.cancel()

    # -- the connection ------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, serve, and connect again, until cancelled."""
        delay = FIRST_RETRY_S
        while True:
            try:
                async with open_channel(self.address, self._settings, self._options) as channel:
                    stub = EngineServiceStub(channel)
                    async with asyncio.timeout(CONNECT_TIMEOUT_S):
                        model = await self._models.of(stub)
                    delay = FIRST_RETRY_S
                    await self._serve(stub, model)
            except (grpc.aio.AioRpcError, TimeoutError, MultiverseError) as error:
                self._reason = _describe(error)
                self.refused = isinstance(error, InvalidRequest)
                raise_if_cancelled()
            finally:
                self._lost()
            log.warning("worker %s: %s", self.address, self._reason)
            await asyncio.sleep(delay)
            delay = min(LAST_RETRY_S, delay * 2)

    async def _serve(self, stub: EngineServiceStub, model: ServedModel) -> None:
        self._commands.clear()
        self._cache.connected()
        call = self._call = stub.Run()
        parts = [
            asyncio.create_task(self._send_commands(call)),
            asyncio.create_task(self._watch_load(stub)),
        ]
        self._model = model
        self.stream += 1
        self.refused = False
        log.info("worker %s serves %s", self.address, model.name)
        self._changed()
        try:
            async for frame in call:
                self.progress_at = asyncio.get_running_loop().time()
                await self._told(frame.updates)
            self._reason = "the worker closed the stream"
        except asyncio.CancelledError:
            raise_if_cancelled()  # else it is `give_up`, which has said why
        finally:
            self._call = None
            for part in parts:
                part.cancel()
            call.cancel()

    async def _send_commands(self, call: grpc.aio.StreamStreamCall) -> None:
        try:
            while True:
                await self._has_commands.wait()
                self._has_commands.clear()
                while self._commands:
                    await call.write(self._together())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the stream broke: its reader says so

    def _together(self) -> pb.RunRequest:
        """The commands that wait, as far as a message is meant to hold them, in one."""
        message = self._commands.popleft()
        room = COMMANDS_BYTES - message.ByteSize()
        while self._commands and (room := room - self._commands[0].ByteSize()) >= 0:
            message.more.append(self._commands.popleft())
        return message

    async def _watch_load(self, stub: EngineServiceStub) -> None:
        try:
            async for report in self._cache.reports(stub):
                self._reported(report, asyncio.get_running_loop().time())
        except grpc.aio.AioRpcError:
            return  # the stream of frames breaks with it, or there are no reports

    def _reported(self, report: pb.WatchLoadResponse, now: float) -> None:
        before, self.load, self.load_at = self.load, report, now
        self.others = max(0, report.running + report.waiting - self.branches)
        if before and _room(report) < _room(before):  # a context grows, or is being loaded
            self.progress_at = now
        if report.draining and not (before and before.draining):
            log.info("worker %s drains", self.address)
            self._changed()

    async def _told(self, updates: Sequence[pb.Update]) -> None:
        """Dispatch a step: what was waited for longest first, and others' turns in between.

        First tokens of a branch come first, as a reader waits for them; what a step says of one
        branch keeps its order. All at once, a step of many branches would keep the loop from
        new requests until the last token of it is written.
        """
        first: list[pb.Update] = []
        later: list[pb.Update] = []
        for update in updates:
            flight = self._flights.get(update.branch)
            (first if flight and not flight.told else later).append(update)
        for number, update in enumerate(first + later, 1):
            self._dispatch(update)
            if number % UPDATES_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _dispatch(self, update: pb.Update) -> None:
        flight = self._flights.get(update.branch)
        if flight is None:  # given up, and ended before the worker heard of it
            self.release(update.finish.lease)
            return
        self.loading -= flight.loading
        flight.loading = 0
        flight.told = True
        if update.HasField("finish"):
            self._land(update.branch)
        flight.subscriber.updated(self, update)

    def _land(self, branch: int) -> bool:
        """The branch is not in flight any more; whether it was."""
        flight = self._flights.pop(branch, None)
        if flight is not None:
            self.tokens -= flight.tokens
            self.loading -= flight.loading
        return flight is not None

    def _lost(self) -> None:
        connected = self.connected
        self._name = self.known_model
        self._model, self.load = None, None
        flights, self._flights = self._flights, {}
        self.tokens = self.loading = self.others = 0
        branches: dict[Subscriber, list[int]] = {}
        for number, flight in flights.items():
            branches.setdefault(flight.subscriber, []).append(number)
        for subscriber, numbers in branches.items():
            subscriber.lost(self, numbers, self.reason)
        if connected:
            self._changed()


def new_branch() -> int:
    """A number that no branch of this process has had."""
    return next(_numbers)


def _room(report: pb.WatchLoadResponse) -> int:
    """Cells that hold nothing anybody needs."""
    return int(report.kv_cells_free + report.kv_cells_idle)


def _describe(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        if error.details() == _WRITE_FAILED:
            return "the stream ended while a command was being sent"
        return f"{error.code().name}: {error.details()}"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
    return str(error)
