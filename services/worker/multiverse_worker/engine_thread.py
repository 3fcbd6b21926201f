"""Runs an engine in a thread of its own, between event-loop callers and its steps.

Knows threads. Must not know gRPC or any particular engine.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from multiverse_worker.cache_journal import CacheChange
from multiverse_worker.contract import BranchId, Engine, Load, Start, Update

TICK_S = 0.5
Command = Callable[[], None]
Deliver = Callable[[list[Update], Load], None]

log = logging.getLogger(__name__)


class EngineThread:
    """Commands go in from the event loop, updates come back to it.

    The queue of commands is bounded by the caller's limit on branches (see `Service`).
    `deliver` is called on the loop after each step; `failed` when the engine raised: it is
    not usable then, and the process should end. `cached` is told what came into the
    engine's cache and left it, before the step that did it is delivered.
    """

    def __init__(
        self,
        engine: Engine,
        deliver: Deliver,
        failed: Callable[[], None],
        cached: Callable[[list[CacheChange]], None] = lambda changes: None,
    ) -> None:
        self._engine = engine
        self._deliver = deliver
        self._failed = failed
        self._cached = cached
        self._loop = asyncio.get_running_loop()
        self._commands: deque[Command] = deque()
        self._gathered: deque[Command] | None = None  # in `together`
        self._wake = threading.Condition()
        self._stopping = False
        self._load = engine.load()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def start(self, start: Start) -> None:
        self._submit(lambda: self._engine.start(start))

    def abort(self, branch: BranchId) -> None:
        self._submit(lambda: self._engine.abort(branch))

    def release(self, lease: str, stream: int) -> None:
        self._submit(lambda: self._engine.release(lease, stream))

    def lose_stream(self, stream: int) -> None:
        self._submit(lambda: self._engine.lose_stream(stream))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is asked for in here is done before the same step."""
        self._gathered = gathered = deque[Command]()
        try:
            yield
        finally:
            self._gathered = None
            self._submit(*gathered)

    async def stop(self) -> None:
        """End the thread after its present step, and close the engine."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _submit(self, *commands: Command) -> None:
        if self._gathered is not None:
            self._gathered.extend(commands)
            return
        with self._wake:
            self._commands.extend(commands)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._work():
                pass
        except Exception:
            log.exception("the engine failed")
            self._loop.call_soon_threadsafe(self._failed)
        finally:
            self._engine.close()

    def _work(self) -> bool:
        with self._wake:
            if not self._commands and not self._stopping and self._engine.idle:
                self._wake.wait(TICK_S)
            commands, self._commands = self._commands, deque()
            if self._stopping:
                return False
        for command in commands:
            command()
        if self._engine.idle:
            self._engine.tick()
        updates = [] if self._engine.idle else self._engine.step()
        if changes := self._engine.cache_changes():
            self._loop.call_soon_threadsafe(self._cached, changes)
        load = self._engine.load()
        if updates or load != self._load:
            self._load = load
            self._loop.call_soon_threadsafe(self._deliver, updates, load)
        return True
