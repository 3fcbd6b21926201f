"""The simulator as a worker process: it needs no weights, and does wrong on command."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_worker.models.directory import TEXT_FILES
from tests.integration.worker.processes import START_S, environment_of, failure, port_of, started
from tests.integration.worker.stream import PATIENCE_S, Stream, text

TINY = Path(__file__).parents[3] / "models" / "multiverse-tiny"
PROMPT = text(30, 31, 32)
FAST = 1000  # as the real machine: a step takes some 30 microseconds


@pytest.fixture
def text_only(tmp_path: Path) -> Path:
    """A model directory without weights."""
    directory = tmp_path / "text-only"
    directory.mkdir()
    for name in TEXT_FILES:
        shutil.copy(TINY / name, directory)
    return directory


@pytest.fixture
def environment(text_only: Path, tmp_path: Path) -> dict[str, str]:
    """Of a simulator on a machine where no engine's libraries are installed."""
    missing = tmp_path / "missing"
    missing.mkdir()
    for name in ("llama_cpp", "gguf"):
        (missing / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})")
    search = os.pathsep.join([str(missing), os.environ.get("PYTHONPATH", "")])
    own = environment_of(tmp_path, model=text_only, engine="sim", sim_speed=FAST)
    return {**own, "PYTHONPATH": search}


def with_settings(environment: dict[str, str], **settings: Any) -> dict[str, str]:
    named = {f"MULTIVERSE_WORKER_{name.upper()}": str(value) for name, value in settings.items()}
    return {**environment, **named}


@asynccontextmanager
async def running(
    environment: dict[str, str],
) -> AsyncIterator[tuple[asyncio.subprocess.Process, grpc.aio.Channel, EngineServiceStub]]:
    async with started(environment) as process:
        port = await port_of(process)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield process, channel, EngineServiceStub(channel)


async def test_a_simulator_serves_without_weights_and_without_llama_cpp(
    environment: dict[str, str],
) -> None:
    async with running(environment) as (process, _, stub):
        info = await stub.GetModelInfo(pb.GetModelInfoRequest())
        assert (info.engine, info.kv_cells, info.vocab_size) == ("sim", 1024, 96)
        assert list(info.capabilities) == [pb.CAPABILITY_FREE_POSITIONS]
        stream = Stream(stub)
        await stream.start(1, PROMPT, max_tokens=50)
        [finish] = await stream.ended(1)
        await stream.release(finish.lease)
        assert (finish.reason, len(stream.ids[1])) == (pb.FINISH_REASON_LENGTH, 50)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_S):
            assert await process.wait() == 0


async def test_another_engine_names_the_library_that_is_missing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    status, said = await failure(with_settings(environment, engine="llamacpp", model=TINY))
    assert status == 2
    assert "multiverse-worker[llamacpp]" in said
    assert "Traceback" not in said


async def test_a_fault_that_cant_be_read_is_named(environment: dict[str, str]) -> None:
    status, said = await failure(with_settings(environment, sim_faults="burn"))
    assert status == 2
    assert "burn" in said
    assert "Traceback" not in said


async def test_a_simulator_dies_on_command(environment: dict[str, str]) -> None:
    settings = with_settings(environment, sim_faults="die@after=20tokens")
    async with running(settings) as (process, _, stub):
        stream = Stream(stub)
        await stream.start(1, PROMPT, max_tokens=500)
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == -signal.SIGKILL


async def test_a_control_file_breaks_the_streams_of_a_worker_that_goes_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    control = tmp_path / "faults"
    settings = with_settings(environment, sim_control=control)
    async with running(settings) as (_, channel, stub):
        stream = Stream(stub)
        await stream.start(1, PROMPT, max_tokens=2)
        await stream.ended(1)
        control.write_text("break_stream")
        assert await stream.broken() is grpc.StatusCode.UNAVAILABLE
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        after = Stream(stub)
        await after.start(1, PROMPT, max_tokens=5)
        [finish] = await after.ended(1)
        assert finish.reason == pb.FINISH_REASON_LENGTH


async def test_a_control_file_makes_a_worker_lie_about_its_load(
    environment: dict[str, str], tmp_path: Path
) -> None:
    control = tmp_path / "faults"
    async with running(with_settings(environment, sim_control=control)) as (_, _, stub):
        reports = stub.WatchLoad(pb.WatchLoadRequest())
        assert (await reports.read()).waiting == 0
        control.write_text("lie_load@waiting=77")
        async with asyncio.timeout(PATIENCE_S):
            while (await reports.read()).waiting != 77:
                pass
            control.unlink()
            while (await reports.read()).waiting != 0:
                pass
        reports.cancel()
