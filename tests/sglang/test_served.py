"""The whole way: HTTP, router, gRPC, SGLang. Its answers are those of llama.cpp."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from multiverse_worker.engines.sglang.engine import SglangEngine
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import listen
from multiverse_worker.service import Service
from multiverse_worker.settings import WorkerSettings
from tests.e2e.answers import events_of, whole
from tests.sglang.conftest import MODEL

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "tiny_answers.json").read_text("utf-8"))
PATIENCE_S = 60.0


class ServedWorker:
    """The worker's service over the session's engine, in a thread with a loop of its own."""

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


@pytest.fixture(scope="module")
def worker(engine: SglangEngine) -> Iterator[ServedWorker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "close", lambda: None)  # it is not the service's to end
        served = ServedWorker(engine)
        yield served
        served.stop()


@pytest.fixture(scope="module")
def client(worker: ServedWorker) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"PORT": str(port), "WORKERS": f"127.0.0.1:{worker.port}", "LOG_LEVEL": "WARNING"}
    environment = {f"MULTIVERSE_ROUTER_{name}": value for name, value in settings.items()}
    router = subprocess.Popen(
        [sys.executable, "-m", "multiverse_router"], env=os.environ | environment
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait_until_ready(client)
            yield client
    finally:
        router.terminate()
        router.wait()


def _wait_until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the router is not ready")


@pytest.mark.parametrize("prompt", sorted(RECORDED))
def test_greedy_answers_are_those_of_llama_cpp(client: httpx.Client, prompt: str) -> None:
    assert whole(client, prompt, parallel="auto", temperature=0)["text"] == RECORDED[prompt]


def test_paths_are_decoded_side_by_side_and_streamed_as_they_grow(client: httpx.Client) -> None:
    prompt = min(RECORDED)
    said = [
        event["path"]
        for event in events_of(client, prompt, parallel="auto", temperature=0)
        if event["type"] == "text" and event["kind"] != "written"
    ]
    paths = [path for path in said if path != "0"]
    assert len(set(paths)) > 1
    assert paths != sorted(paths)  # not one after another


def test_a_client_that_leaves_takes_its_branches_with_it(
    client: httpx.Client, engine: SglangEngine
) -> None:
    body = {"prompt": min(RECORDED), "temperature": 0, "stream": True}
    with client.stream("POST", "/v1/generate", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("event: text"):
                break
    wait_until_idle(engine)


def wait_until_idle(engine: SglangEngine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while engine.load().running or engine.load().waiting:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_deadline_that_passes_ends_all_branches_and_harms_no_neighbour(
    client: httpx.Client, engine: SglangEngine
) -> None:
    prompt = max(RECORDED, key=lambda prompt: len(RECORDED[prompt]))
    answers: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        ask = pool.submit(whole, client, prompt, parallel="auto", temperature=0)
        for deadline_s in (0.01, 0.05, 0.2):
            answer = whole(client, prompt, parallel="auto", temperature=0, deadline_s=deadline_s)
            if answer["finish_reason"] == "deadline":
                answers.append(answer["text"])
        assert ask.result()["text"] == RECORDED[prompt]
    assert answers, "an answer of 200 tokens takes longer than the shortest of these"
    assert all(RECORDED[prompt] != text for text in answers)
    wait_until_idle(engine)
