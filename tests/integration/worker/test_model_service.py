"""What a worker says of itself and of its model."""

from __future__ import annotations

import hashlib

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import SERVICE_NAME, listen
from multiverse_worker.service import FILE_CHUNK
from multiverse_worker.settings import WorkerSettings
from tests.integration.worker.served import TOKENIZER, Worker


async def files_of(worker: Worker) -> dict[str, bytes]:
    """All model files; each chunk is checked."""
    files: dict[str, bytearray] = {}
    done: set[str] = set()
    async for chunk in worker.stub.GetModelFiles(pb.GetModelFilesRequest()):
        assert chunk.name not in done
        assert len(chunk.data) <= FILE_CHUNK
        data = files.setdefault(chunk.name, bytearray())
        data += chunk.data
        if chunk.last:
            done.add(chunk.name)
            assert chunk.sha256 == hashlib.sha256(data).digest()
        else:
            assert chunk.sha256 == b""
    assert done == set(files)
    return {name: bytes(data) for name, data in files.items()}


def digest_of(files: dict[str, bytes]) -> str:
    state = hashlib.sha256()
    for name in sorted(files):
        state.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return state.hexdigest()


async def test_model_files_arrive_whole_with_their_digests(worker: Worker) -> None:
    files = await files_of(worker)
    assert files == {
        "tokenizer.json": TOKENIZER,
        "multiverse.json": b"{}",
        "chat_template.jinja": b"",
    }


async def test_the_info_says_what_the_engine_is(worker: Worker) -> None:
    info = await worker.stub.GetModelInfo(pb.GetModelInfoRequest())
    assert (info.model, info.engine) == ("served", "llamacpp")
    assert (info.vocab_size, info.context_length, info.kv_cells) == (96, 1024, 1024)
    assert info.namespace == worker.engine.info.namespace
    assert info.engine_version in info.namespace
    assert list(info.capabilities) == []
    assert info.files_digest == digest_of(await files_of(worker))


async def test_the_digest_is_that_of_the_files_given_though_they_change_on_disk(
    worker: Worker, served_model: ModelDirectory
) -> None:
    (served_model.path / "multiverse.json").write_text('{"new": 1}')
    info = await worker.stub.GetModelInfo(pb.GetModelInfoRequest())
    assert info.files_digest == digest_of(await files_of(worker))


@pytest.mark.parametrize("name", ["", SERVICE_NAME])
async def test_the_health_check_says_serving(worker: Worker, name: str) -> None:
    stub = health_pb2_grpc.HealthStub(worker.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_health_says_not_serving_once_no_new_requests_are_taken(worker: Worker) -> None:
    stub = health_pb2_grpc.HealthStub(worker.channel)
    await worker.stub.Drain(pb.DrainRequest(grace_s=1))
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=SERVICE_NAME))
    assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_reflection_names_the_service(worker: Worker) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(worker.channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    answers = stub.ServerReflectionInfo(iter([request]))
    answer = await anext(aiter(answers))
    assert SERVICE_NAME in {service.name for service in answer.list_services_response.service}


async def test_two_workers_do_not_share_a_port(
    worker: Worker, served_model: ModelDirectory
) -> None:
    settings = WorkerSettings(model=served_model.path, port=0)
    first, port = await listen(worker.service, settings)
    second = None
    try:
        with pytest.raises(Exception, match=str(port)):
            second, _ = await listen(
                worker.service, WorkerSettings(model=served_model.path, port=port)
            )
    finally:
        await first.stop(0)
        if second:
            await second.stop(0)
