"""The parts of a fleet as processes that can be ended and started again where they were."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from tests.redis_server import RedisServer, redis_server
from tests.reliability.chaos.proxy import FaultProxy
from tests.reliability.rig import free_port

START_S = 120.0
POLL_S = 0.1
GRACE_S = "10"


@dataclass
class Part:
    """`python -m MODULE` with settings; its port stays the same."""

    name: str
    module: str
    port: int
    settings: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    run: str = ""  # a module that is run in its place, and takes its settings

    def start(self) -> None:
        prefix = f"{self.module.upper()}_"
        named = {"LOG_LEVEL": "INFO", "PORT": str(self.port), **self.settings}
        environment = os.environ | {prefix + key: value for key, value in named.items()}
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", self.run or self.module]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    async def gone(self, within_s: float = 60.0) -> int:
        """Its exit status. TimeoutError when it does not end."""
        async with asyncio.timeout(within_s):
            while not self.ended:  # noqa: ASYNC110 - a process, not an event
                await asyncio.sleep(POLL_S)
        assert self.process
        return int(self.process.returncode)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Parts:
    """Workers behind fault proxies, routers, Redis."""

    folder: Path
    workers: list[Part]
    proxies: list[FaultProxy]
    routers: list[Part]
    redis: RedisServer
    _scope: AsyncExitStack = field(default_factory=AsyncExitStack)

    def url(self, index: int) -> str:
        return f"http://127.0.0.1:{self.routers[index].port}"

    def restart_redis(self) -> None:
        """It comes back empty at its port."""
        self.redis = self._scope.enter_context(redis_server(port=self.redis.port))

    async def ready(self, workers: int | None = None) -> None:
        """Every router takes requests; `workers` of them are connected, if given."""
        async with httpx.AsyncClient(trust_env=False) as client:
            for index in range(len(self.routers)):
                await until(lambda index=index: self._ready(client, index, workers), "ready")

    async def _ready(self, client: httpx.AsyncClient, index: int, workers: int | None) -> bool:
        try:
            body = (await client.get(f"{self.url(index)}/ready", timeout=5)).json()
        except httpx.HTTPError:
            return False
        return body["status"] == "ready" and (workers is None or body["workers"] >= workers)

    async def running(self) -> int:
        """Answers that routers say are in flight."""
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            total = 0
            for index in range(len(self.routers)):
                total += (await client.get(f"{self.url(index)}/ready")).json()["running"]
        return total

    async def load(self) -> int:
        """Branches and leases that the workers that are there have."""
        total = 0
        for worker in self.workers:
            if worker.ended:
                continue
            async with grpc.aio.insecure_channel(f"127.0.0.1:{worker.port}") as channel:
                reports = EngineServiceStub(channel).WatchLoad(
                    pb.WatchLoadRequest(), wait_for_ready=True, timeout=20
                )
                report = await reports.read()
                reports.cancel()
                total += report.running + report.waiting + report.leases
        return total


async def until(condition: Callable[[], object], what: str, within_s: float = START_S) -> None:
    """Poll until `condition` (awaited where it has to be) holds."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(POLL_S)


@asynccontextmanager
async def fleet(
    folder: Path,
    model: Path,
    *,
    workers: int = 4,
    routers: int = 2,
    worker_settings: dict[str, str] | None = None,
    router_settings: dict[str, str] | None = None,
) -> AsyncIterator[Parts]:
    """Started and ready; everything is killed at the end."""
    async with AsyncExitStack() as scope:
        redis = scope.enter_context(redis_server())
        parts = Parts(folder, [], [], [], redis, scope)
        for number in range(workers):
            port = free_port()
            proxy = await scope.enter_async_context(FaultProxy(port).listening())
            own = {
                "MODEL": str(model),
                "ENGINE": "sim",
                "REGISTRY": redis.url,
                "ADVERTISE": f"127.0.0.1:{proxy.port}",
                "SHUTDOWN_GRACE_S": GRACE_S,
                **(worker_settings or {}),
            }
            name = f"worker-{number}"
            part = Part(name, "multiverse_worker", port, own, folder / f"{name}.log")
            parts.proxies.append(proxy)
            parts.workers.append(part)
        for number in range(routers):
            own = {
                "DISCOVERY": "redis",
                "REDIS_URL": redis.url,
                "SHUTDOWN_GRACE_S": GRACE_S,
                **(router_settings or {}),
            }
            name = f"router-{number}"
            part = Part(name, "multiverse_router", free_port(), own, folder / f"{name}.log")
            parts.routers.append(part)
        for part in (*parts.workers, *parts.routers):
            part.start()
            scope.callback(part.stop)
        await parts.ready(workers)
        yield parts
