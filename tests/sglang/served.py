"""The worker's service over an SGLang engine of the tests, and a router in front of such."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from multiverse_worker.engines.sglang.engine import SglangEngine
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import listen
from multiverse_worker.service import Service
from multiverse_worker.settings import WorkerSettings
from tests.sglang.conftest import MODEL

PATIENCE_S = 60.0


class ServedWorker:
    """The service over one engine, in a thread with a loop of its own."""

    def __init__(self, engine: SglangEngine) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._start())

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)  # type: ignore[arg-type]

    async def _start(self) -> None:
        model = ModelDirectory(MODEL)
        self._service = Service(self._engine, model, 256)
        self._server, self.port = await listen(self._service, WorkerSettings(model=MODEL, port=0))

    async def _stop(self) -> None:
        await self._server.stop(0)
        await self._service.close()

    def stop(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@contextmanager
def served(engine: SglangEngine) -> Iterator[ServedWorker]:
    """A worker whose engine outlives it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "close", lambda: None)  # it is not the service's to end
        worker = ServedWorker(engine)
        yield worker
        worker.stop()


@contextmanager
def routed(*workers: ServedWorker, **settings: str) -> Iterator[httpx.Client]:
    """A router's process in front of workers, ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "PORT": str(port),
        "WORKERS": ",".join(f"127.0.0.1:{worker.port}" for worker in workers),
        "LOG_LEVEL": "WARNING",
        **settings,
    }
    environment = {f"MULTIVERSE_ROUTER_{name}": value for name, value in settings.items()}
    router = subprocess.Popen(
        [sys.executable, "-m", "multiverse_router"], env=os.environ | environment
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait_until_ready(client, len(workers))
            yield client
    finally:
        router.terminate()
        router.wait()


def wait_until_idle(engine: SglangEngine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while engine.load().running or engine.load().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _wait_until_ready(client: httpx.Client, workers: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            ready = client.get("/ready")
            if ready.status_code == 200 and ready.json()["workers"] == workers:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the router is not ready")
