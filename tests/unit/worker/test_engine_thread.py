"""The thread around an engine: what goes in is done in order, what comes out is delivered."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest

from multiverse_worker.contract import BranchId, FinishReason, Ids, Load, Start, Update
from multiverse_worker.engine_thread import EngineThread
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.leases import QUIET_REQUEST_S
from tests.unit.worker.client import text
from tests.unit.worker.symbolic import expected_greedy, library_of, symbolic_engine

PROMPT = text(1, 2, 3)
PATIENCE_S = 10.0


@dataclass
class Listener:
    """Collects what an engine thread delivers, and on which thread."""

    updates: list[Update] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    failures: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def deliver(self, updates: list[Update], load: Load) -> None:
        self.threads.add(threading.get_ident())
        self.updates += updates
        self.loads.append(load)
        self._changed.set()

    def failed(self) -> None:
        self.threads.add(threading.get_ident())
        self.failures += 1
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    def ids(self, number: int) -> Ids:
        return tuple(i for u in self.updates if u.branch.number == number for i in u.ids)

    def ended(self, number: int) -> FinishReason | None:
        reasons = [u.finish.reason for u in self.updates if u.finish and u.branch.number == number]
        return reasons[0] if reasons else None


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def running(
    clock: Callable[[], float] = lambda: 0.0,
) -> AsyncIterator[tuple[EngineThread, Listener, LlamaCppEngine]]:
    with symbolic_engine(clock=clock) as engine:
        listener = Listener()
        thread = EngineThread(engine, listener.deliver, listener.failed)
        try:
            yield thread, listener, engine
        finally:
            await thread.stop()


def start(number: int, tokens: int = 5) -> Start:
    return Start(BranchId(1, number), f"r{number}", (PROMPT,), tokens)


async def test_updates_are_delivered_on_the_loop_in_order() -> None:
    async with running() as (thread, listener, _):
        thread.start(start(1))
        await listener.until(lambda: listener.ended(1) is not None)
        assert listener.ids(1) == expected_greedy((PROMPT,), 5)
        assert listener.threads == {threading.get_ident()}


async def test_commands_are_carried_out_in_the_order_they_came() -> None:
    async with running() as (thread, listener, _):
        thread.start(start(1, tokens=4000))
        thread.abort(BranchId(1, 1))
        thread.start(start(1, tokens=2))
        await listener.until(lambda: sum(u.finish is not None for u in listener.updates) == 2)
        assert listener.ended(1) is FinishReason.ABORTED
        assert len(listener.ids(1)) == 2


async def test_what_is_asked_for_together_is_done_before_the_same_step() -> None:
    stepped = threading.Event()
    async with running() as (thread, listener, engine):
        step = engine.step

        def noted() -> list[Update]:
            stepped.set()
            return step()

        with patch.object(engine, "step", noted):
            with thread.together():
                for number in range(7):
                    thread.start(start(number))
                    assert not stepped.wait(0.02)
            await listener.until(lambda: all(listener.ended(n) for n in range(7)))
        assert {update.branch.number for update in listener.updates[:7]} == set(range(7))
        assert {listener.ids(n) for n in range(7)} == {expected_greedy((PROMPT,), 5)}


async def test_many_branches_all_end() -> None:
    async with running() as (thread, listener, _):
        for number in range(40):
            thread.start(start(number))
        await listener.until(lambda: all(listener.ended(n) for n in range(40)))
        assert {listener.ids(n) for n in range(40)} == {expected_greedy((PROMPT,), 5)}


async def test_the_load_after_the_last_update_is_that_of_an_idle_engine() -> None:
    async with running() as (thread, listener, _):
        thread.start(start(1))
        await listener.until(lambda: listener.ended(1) is not None)
        assert (listener.loads[-1].running, listener.loads[-1].waiting) == (0, 0)
        assert listener.loads[-1].leases == 1


async def test_a_released_lease_is_seen_in_the_load() -> None:
    async with running() as (thread, listener, _):
        thread.start(start(1))
        await listener.until(lambda: listener.ended(1) is not None)
        [lease] = [u.finish.lease for u in listener.updates if u.finish]
        thread.release(lease, 1)
        await listener.until(lambda: listener.loads[-1].leases == 0)


async def test_leases_that_expire_while_nothing_runs_are_seen_in_the_load() -> None:
    clock = Clock()
    async with running(clock) as (thread, listener, _):
        thread.start(start(1))
        await listener.until(lambda: listener.ended(1) is not None)
        clock.now += QUIET_REQUEST_S
        await listener.until(lambda: listener.loads[-1].leases == 0)


async def test_a_lost_stream_aborts_its_branches_only() -> None:
    async with running() as (thread, listener, _):
        thread.start(Start(BranchId(2, 1), "other", (PROMPT,), 3000))
        thread.start(Start(BranchId(1, 2), "own", (PROMPT,), 4))
        thread.lose_stream(2)
        await listener.until(lambda: all(listener.ended(number) for number in (1, 2)))
        assert listener.ended(1) is FinishReason.ABORTED
        assert listener.ended(2) is FinishReason.LENGTH


async def test_stopping_closes_the_engine_though_branches_run() -> None:
    async with running() as (thread, listener, engine):
        thread.start(start(1, tokens=4000))
        await listener.until(lambda: len(listener.ids(1)) > 2)
        await thread.stop()
        assert library_of(engine).closed
        assert listener.failures == 0


async def test_stopping_twice_is_harmless() -> None:
    async with running() as (thread, _, _engine):
        await thread.stop()
        await thread.stop()


async def test_an_engine_that_raises_is_reported_once_and_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (thread, listener, engine):

        def broken(*_: object) -> None:
            raise RuntimeError("llama_decode failed with -3")

        monkeypatch.setattr(library_of(engine), "compute", broken)
        with caplog.at_level(logging.CRITICAL + 1):
            thread.start(start(1))
            await listener.until(lambda: listener.failures > 0)
        await thread.stop()
        assert listener.failures == 1
        assert library_of(engine).closed
        assert listener.threads == {threading.get_ident()}
