"""A worker process, and the router's own parts in this one: coordinator, answers, fleet.

No HTTP: a test leaves an answer exactly when it wants to, and can count what is left.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
from prometheus_client.parser import text_string_to_metric_families

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.answers import Answers
from multiverse_router.api.bodies import GenerateBody, Message, answer_request
from multiverse_router.context_seal import ContextSeal
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.limits.admissions import Admissions
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.places import Places
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings

START_S = 120.0
POLL_S = 0.05
EXACT = {"kv_type": "f32", "flash_attention": "false"}  # greedy is exact, whatever the batch
PREFIX = "multiverse_worker_"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Rig:
    """One worker and the router's side of it."""

    fleet: Fleet
    answers: Answers
    address: str  # of the worker
    metrics_url: str
    settings: RouterSettings
    load: pb.WatchLoadResponse = field(default_factory=pb.WatchLoadResponse)
    reports: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def request(self, prompt: str, **options: Any) -> AnswerRequest:
        """As the native API makes one."""
        body = GenerateBody(prompt=prompt, **options)
        return answer_request(
            f"gen-{next(self._numbers)}",
            body,
            body,
            [Message(role="user", content=prompt)],
            body.max_tokens,
            self.answers.model(),
            self.settings,
            self.answers.seal,
        )

    async def watch(self, stub: EngineServiceStub) -> None:
        """Keep `load` up to date, until cancelled."""
        async for self.load in stub.WatchLoad(pb.WatchLoadRequest()):
            self.reports += 1
            self._news.set()

    async def until_idle(self, within_s: float) -> bool:
        """Whether nothing runs, waits or is leased any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self.load.running + self.load.waiting + self.load.leases:
                    self._news.clear()
                    await self._news.wait()
                return True
        return False

    async def metrics(self) -> dict[str, float]:
        """What the worker tells Prometheus: name, or name/label, without histograms."""
        async with httpx.AsyncClient(trust_env=False) as client:
            text = (await client.get(self.metrics_url)).text
        return {
            "/".join([sample.name.removeprefix(PREFIX), *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if family.type != "histogram"
        }


def peak_memory_mib(process: int) -> float:
    """Largest resident size of a process so far."""
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@contextmanager
def worker(model: Path, settings: dict[str, str]) -> Iterator[tuple[int, int, int]]:
    """A worker process: its id, its port, its metrics port."""
    port, metrics_port = free_port(), free_port()
    own = {"model": str(model), "port": str(port), "metrics_port": str(metrics_port)}
    named = {"log_level": "WARNING", **own, **settings}
    environment = {f"MULTIVERSE_WORKER_{name.upper()}": value for name, value in named.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "multiverse_worker"], env=os.environ | environment
    )
    try:
        yield process.pid, port, metrics_port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def rig(model: Path, **settings: str) -> AsyncIterator[Rig]:
    """Connected and ready."""
    with worker(model, settings) as (_, port, metrics_port):
        address = f"127.0.0.1:{port}"
        router = RouterSettings(workers=address, max_requests=1024)
        fleet = Fleet(router)
        admissions = Admissions(Places(router.max_requests), LocalLimits())
        made = Rig(
            fleet,
            Answers(fleet, admissions, ContextSeal.of("")),
            address,
            f"http://127.0.0.1:{metrics_port}/metrics",
            router,
        )
        async with grpc.aio.insecure_channel(address) as channel:
            stub = EngineServiceStub(channel)
            await stub.GetModelInfo(pb.GetModelInfoRequest(), wait_for_ready=True, timeout=START_S)
            tasks = [asyncio.create_task(run) for run in (fleet.run(), made.watch(stub))]
            try:
                await _until_connected(fleet)
                yield made
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


async def _until_connected(fleet: Fleet) -> None:
    for _ in range(int(START_S / POLL_S)):
        if fleet.ready:
            return
        await asyncio.sleep(POLL_S)
    raise TimeoutError("the router does not connect")
