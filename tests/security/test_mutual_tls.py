"""Between router and workers both sides prove who they are, and certificates may be renewed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.settings import RouterSettings
from multiverse_router.worker_channel import open_channel
from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sim import launch as sim
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.server import listen
from multiverse_worker.service import Service
from multiverse_worker.settings import WorkerSettings
from tests.certificates import Authority, tls_settings

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
NAME = "workers.multiverse.svc"
DEADLINE_S = 10.0


@asynccontextmanager
async def a_worker(folder: Path | None) -> AsyncIterator[int]:
    """The port of a simulated worker with the certificate of `folder`."""
    given = tls_settings(folder) if folder else {}
    settings = WorkerSettings.model_validate({"model": MODEL, "engine": "sim", "port": 0, **given})
    model = ModelDirectory(settings.model, None, False)
    service = Service(sim.launch(model, settings), model, settings.max_branches)
    server, port = await listen(service, settings)
    try:
        yield port
    finally:
        await server.stop(0)
        await service.close()


async def asked(port: int, folder: Path | None, name: str = NAME) -> str:
    """The model's name, as a router with the certificate of `folder` hears it."""
    given = tls_settings(folder, "worker_") if folder else {}
    settings = RouterSettings.model_validate({"worker_tls_name": name, **given})
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with open_channel(f"127.0.0.1:{port}", settings, options) as channel:
        stub = EngineServiceStub(channel)
        info = await stub.GetModelInfo(pb.GetModelInfoRequest(), timeout=DEADLINE_S)
        return str(info.model)


@pytest.fixture
def authority() -> Authority:
    return Authority()


async def test_both_sides_with_certificates_of_one_authority_talk(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_worker(authority.issue(tmp_path / "worker", NAME)) as port:
        assert await asked(port, authority.issue(tmp_path / "router", "router")) == MODEL.name


async def test_a_router_without_a_certificate_is_not_let_in(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_worker(authority.issue(tmp_path / "worker", NAME)) as port:
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asked(port, None)


async def test_a_router_that_another_authority_signed_is_not_let_in(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_worker(authority.issue(tmp_path / "worker", NAME)) as port:
        router = Authority().issue(tmp_path / "router", "router")
        authority.ca.cert_pem.write_to_path(str(router / "ca.crt"))  # it trusts the worker
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asked(port, router)


async def test_a_router_refuses_a_worker_that_another_authority_signed(
    authority: Authority, tmp_path: Path
) -> None:
    worker = Authority().issue(tmp_path / "worker", NAME)
    authority.ca.cert_pem.write_to_path(str(worker / "ca.crt"))
    async with a_worker(worker) as port:
        with pytest.raises(grpc.aio.AioRpcError, match=r"(?i)certificate"):
            await asked(port, authority.issue(tmp_path / "router", "router"))


async def test_a_router_refuses_a_worker_of_another_name(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_worker(authority.issue(tmp_path / "worker", "elsewhere")) as port:
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asked(port, authority.issue(tmp_path / "router", "router"))


async def test_without_a_name_a_worker_needs_a_certificate_for_its_address(
    authority: Authority, tmp_path: Path
) -> None:
    router = authority.issue(tmp_path / "router", "router")
    async with a_worker(authority.issue(tmp_path / "worker", "127.0.0.1")) as port:
        assert await asked(port, router, name="") == MODEL.name


async def test_renewed_certificates_count_from_the_next_connection_on(
    authority: Authority, tmp_path: Path
) -> None:
    """All change, the authority too: peers with old certificates are refused from then on."""
    worker = authority.issue(tmp_path / "worker", NAME)
    old = authority.issue(tmp_path / "router", "router")
    async with a_worker(worker) as port:
        assert await asked(port, old) == MODEL.name
        renewed = Authority()
        renewed.issue(worker, NAME)
        assert await asked(port, renewed.issue(tmp_path / "renewed", "router")) == MODEL.name
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asked(port, old)


async def test_files_that_became_unusable_leave_the_old_certificate_in_use(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = authority.issue(tmp_path / "worker", NAME)
    async with a_worker(worker) as port:
        (worker / "tls.key").unlink()
        assert await asked(port, authority.issue(tmp_path / "router", "router")) == MODEL.name
    assert "the certificates of before stay in use" in caplog.text


async def test_a_worker_does_not_start_with_unusable_files(
    authority: Authority, tmp_path: Path
) -> None:
    worker = authority.issue(tmp_path / "worker", NAME)
    (worker / "tls.key").write_text("no key", "utf-8")
    with pytest.raises(InvalidRequest, match=r"tls\.key"):
        async with a_worker(worker):
            pytest.fail("it started")
