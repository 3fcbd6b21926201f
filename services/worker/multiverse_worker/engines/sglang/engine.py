"""The contract over an SGLang scheduler that runs in processes of its own.

Commands go to the plugin in the scheduler, reports come back; no token passes through SGLang's
own front end. All decisions are made there (`branches`).
"""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import zmq

from multiverse_shared.errors import InvalidRequest, WorkerUnavailable
from multiverse_worker.contract import (
    BranchId,
    Engine,
    Load,
    Observer,
    Start,
    Update,
)
from multiverse_worker.engines.sglang.messages import (
    CHANNEL_VARIABLE,
    COMMANDS_SOCKET,
    NAMESPACE_VARIABLE,
    REPORTS_SOCKET,
    TIER_FILE,
    Report,
    Verb,
)
from multiverse_worker.tier.settings import TierSettings

STEP_S = 0.005  # the longest that `step` waits for a report
HELLO_S = 5.0  # SGLang is up: its plugin has said so, or is not there
ANSWER_S = 60.0  # the longest that the scheduler may take to answer
NO_PLUGIN = (
    "the plugin did not start in SGLang's scheduler: install multiverse-worker where sglang is "
    'installed, and let SGLANG_PLUGINS name "multiverse"'
)


class Server(Protocol):
    """An SGLang engine: its processes, and no others, end with `shutdown`."""

    engine: Any  # SGLang's own

    def shutdown(self) -> None: ...


class SglangEngine(Engine):
    """`launch` starts SGLang; it runs with the channel in its environment. The client of the
    tier is in the scheduler's process, where the KV is."""

    def __init__(
        self, launch: Callable[[], Server], namespace: str, tier: TierSettings | None = None
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="multiverse-sglang-"))
        if tier:
            (self._folder / TIER_FILE).write_bytes(pickle.dumps(tier))
        context = zmq.Context.instance()
        self._commands = _bind(context, zmq.PUSH, self._folder / COMMANDS_SOCKET)
        self._reports = _bind(context, zmq.PULL, self._folder / REPORTS_SOCKET)
        self._running: set[BranchId] = set()
        self._updates: list[Update] = []
        self._requests = itertools.count(1)
        self._dropped = 0
        self._observer: Observer | None = None
        os.environ[CHANNEL_VARIABLE] = str(self._folder)
        os.environ[NAMESPACE_VARIABLE] = namespace
        try:
            self.server = launch()
        except BaseException:
            self._discard_channel()
            raise
        finally:
            del os.environ[CHANNEL_VARIABLE], os.environ[NAMESPACE_VARIABLE]
        hello = self._take(HELLO_S)
        if hello is None or hello.info is None:
            self.close()
            raise InvalidRequest((hello and hello.refusal) or NO_PLUGIN, field="sglang")
        self.info = hello.info
        self._load = hello.load

    # -- contract ------------------------------------------------------------------------------

    @property
    def observer(self) -> Observer | None:
        return self._observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._observer = observer
        self._send(Verb.OBSERVE, observer is not None)

    def start(self, start: Start) -> None:
        self._running.add(start.branch)
        self._send(Verb.START, start)

    def abort(self, branch: BranchId) -> None:
        self._send(Verb.ABORT, branch)

    def release(self, lease: str, stream: int) -> None:
        self._send(Verb.RELEASE, (lease, stream))

    def lose_stream(self, stream: int) -> None:
        self._send(Verb.LOSE_STREAM, stream)

    def step(self) -> list[Update]:
        self._drain(STEP_S if self._running and not self._updates else 0.0)
        updates, self._updates = self._updates, []
        return updates

    def tick(self) -> None:
        self._drain(0.0)

    @property
    def idle(self) -> bool:
        return not self._running and not self._updates

    def load(self) -> Load:
        return self._load

    def drop_cached(self) -> None:
        number = next(self._requests)
        self._send(Verb.DROP_CACHED, number)
        while self._dropped < number:
            self._expect()

    def close(self) -> None:
        self.server.shutdown()
        self._discard_channel()

    # -- channel -------------------------------------------------------------------------------

    def _send(self, verb: Verb, argument: Any) -> None:
        self._commands.send(pickle.dumps([(verb, argument)]))

    def _expect(self) -> None:
        """Take in one report. WorkerUnavailable when the scheduler does not answer."""
        report = self._take(ANSWER_S)
        if report is None:
            raise WorkerUnavailable("SGLang's scheduler does not answer; restart the worker")
        self._note(report)

    def _drain(self, wait_s: float) -> None:
        while (report := self._take(wait_s)) is not None:
            self._note(report)
            wait_s = 0.0

    def _take(self, wait_s: float) -> Report | None:
        if not self._reports.poll(int(wait_s * 1000)):
            return None
        report: Report = pickle.loads(self._reports.recv())
        return report

    def _note(self, report: Report) -> None:
        self._load, self._dropped = report.load, report.dropped
        for seen in report.seen:
            if self._observer and seen.branch in self._running:
                self._observer(seen.branch, seen.linear, seen.rows)
        for update in report.updates:
            if update.finish:
                self._running.discard(update.branch)
            self._updates.append(update)

    def _discard_channel(self) -> None:
        self._commands.close(linger=0)
        self._reports.close(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)


def _bind(context: zmq.Context[Any], kind: int, path: Path) -> zmq.Socket[Any]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.bind(f"ipc://{path}")
    return socket
