"""The worker as a process: it starts, serves, says clearly why it can't, and ends in order."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import grpc
import httpx
import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_worker.models.directory import ModelDirectory
from tests.integration.worker.processes import (
    START_S,
    environment_of,
    failure,
    port_of,
    started,
    until_it_listens_or_ends,
)
from tests.integration.worker.stream import Stream, text
from tests.unit.worker.ggufs import TOKENS, write_gguf, write_tokenizer

Environment = Callable[..., dict[str, str]]


@pytest.fixture
def environment(model: ModelDirectory, tmp_path: Path) -> Environment:
    """The environment of a worker of the tiny model."""
    return partial(environment_of, tmp_path, model=model.path)


async def test_a_worker_serves_and_ends_in_order_on_sigterm(environment: Environment) -> None:
    """On SIGTERM the running branch ends first; then the process does, with status 0."""
    async with started(environment(weight_type="f16")) as process:
        port = await port_of(process)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = EngineServiceStub(channel)
            info = await stub.GetModelInfo(pb.GetModelInfoRequest())
            assert (info.engine, info.kv_cells) == ("llamacpp", 1024)
            assert "/f16/" in info.namespace
            stream = Stream(stub)
            await stream.start(1, text(1, 2, 3), max_tokens=200)
            await stream.until(lambda: bool(stream.ids.get(1)))
            process.send_signal(signal.SIGTERM)
            [finish] = await stream.ended(1)
            await stream.release(finish.lease)
            assert (finish.reason, len(stream.ids[1])) == (pb.FINISH_REASON_LENGTH, 200)
        async with asyncio.timeout(START_S):
            assert await process.wait() == 0


async def test_a_model_that_is_not_there_is_named(environment: Environment, tmp_path: Path) -> None:
    status, said = await failure(environment(model=tmp_path / "nowhere"))
    assert status == 2
    assert f"{tmp_path / 'nowhere'} is not a directory" in said
    assert "Traceback" not in said


async def test_a_users_gguf_is_served_as_it_is(environment: Environment, tmp_path: Path) -> None:
    write_gguf(tmp_path / "users.gguf")
    write_tokenizer(tmp_path)
    async with started(environment(model=tmp_path, weight_type="q8_0")) as process:
        said = await until_it_listens_or_ends(process)
        assert "weight_type is ignored" in said
        found = re.search(r"listens on (127\.0\.0\.1:\d+)", said)
        assert found, said
        async with grpc.aio.insecure_channel(found[1]) as channel:
            stub = EngineServiceStub(channel)
            info = await stub.GetModelInfo(pb.GetModelInfoRequest())
            assert (info.vocab_size, info.context_length) == (len(TOKENS), 256)
            assert "/gguf/" in info.namespace
            stream = Stream(stub)
            await stream.start(1, text(1, 2, 3), max_tokens=5)
            [finish] = await stream.ended(1)
            assert (finish.reason, len(stream.ids[1])) == (pb.FINISH_REASON_LENGTH, 5)


async def test_weights_and_a_tokenizer_of_two_models_are_named(
    environment: Environment, model: ModelDirectory, tmp_path: Path
) -> None:
    """The weights of one directory, the tokenizer of another."""
    weights = write_gguf(tmp_path / "users.gguf", tokens=TOKENS[:50])
    status, said = await failure(environment(weights=weights))
    assert status == 2
    assert f"{model.path / 'tokenizer.json'} has token ids up to 95" in said
    assert "Traceback" not in said


async def test_a_setting_that_is_missing_is_named(environment: Environment) -> None:
    status, said = await failure(environment(model=None))
    assert status == 2
    assert "model" in said
    assert "Traceback" not in said


async def test_a_port_that_is_taken_is_named(environment: Environment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said = await failure(environment(port=port))
    assert status > 0
    assert str(port) in said
    assert "Traceback" not in said


async def test_a_batch_smaller_than_the_number_of_sequences_is_refused_or_served(
    environment: Environment,
) -> None:
    """llama.cpp aborts the process if it is passed on as it is."""
    async with started(environment(sequences=32, batch_tokens=16)) as process:
        said = await until_it_listens_or_ends(process)
        assert "listens on" in said or await process.wait() == 2, said


async def test_its_metrics_are_served_when_a_port_is_set(environment: Environment) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with started(environment(metrics_port=port)) as process:
        await port_of(process)
        async with httpx.AsyncClient() as client:
            told = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    assert 'multiverse_worker_kv_cells{use="free"} 1024.0' in told
    assert "multiverse_worker_step_seconds_count 0.0" in told


async def test_a_metrics_port_that_is_taken_is_named(environment: Environment) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with started(environment(metrics_port=taken.getsockname()[1])) as process:
            said = await until_it_listens_or_ends(process)
            assert await process.wait() == 2
    assert "MULTIVERSE_WORKER_METRICS_PORT" in said
