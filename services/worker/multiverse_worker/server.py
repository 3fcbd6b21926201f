"""The worker process: settings -> engine -> gRPC server, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from multiverse_protos.engine.v1.engine_pb2_grpc import add_EngineServiceServicer_to_server
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tracing import tracing
from multiverse_worker.engines.sim.engine import SimEngine
from multiverse_worker.launch import launch
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.registration import Registration
from multiverse_worker.service import SERVICE_NAME, Service
from multiverse_worker.settings import WorkerSettings
from multiverse_worker.status import Status, serve_status
from multiverse_worker.tls import server_credentials

log = logging.getLogger(__name__)


async def serve(settings: WorkerSettings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    has_weights = settings.engine != "sim"
    model = ModelDirectory(settings.model, settings.weights, has_weights)
    with ExitStack() as ending:
        tracer = ending.enter_context(tracing("multiverse-worker", settings.otlp_endpoint))
        engine = await asyncio.to_thread(launch, model, settings)
        service = Service(engine, model, settings.max_branches, tracer)
        if isinstance(engine, SimEngine):
            engine.faults.break_streams = service.break_streams
        if settings.metrics_port:
            ending.callback(serve_status(_status(service), settings.host, settings.metrics_port))
        return await _run(service, model, settings)


def _status(service: Service) -> Status:
    return Status(
        service.metrics.registry,
        is_healthy=lambda: not service.broken.is_set(),
        is_ready=lambda: service.takes_requests,
    )


async def _run(service: Service, model: ModelDirectory, settings: WorkerSettings) -> int:
    server, port = await listen(service, settings)
    log.info("worker of %s listens on %s:%d", model.name, settings.host, port)
    gc.collect()
    gc.freeze()  # modules and tokens stay: to look through them would hold up a step each time
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(service.broken.wait())]
    async with _registered(settings, port):
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not service.broken.is_set():
        await service.drain(settings.shutdown_grace_s)
    for task in ends:
        task.cancel()
    await server.stop(grace=1.0)
    await service.close()
    return int(service.broken.is_set())


@asynccontextmanager
async def _registered(settings: WorkerSettings, port: int) -> AsyncIterator[None]:
    """Told in the registry inside, where there is one."""
    url = settings.registry.get_secret_value()
    if not url:
        yield
        return
    registration = Registration(url, settings.advertise or f"{settings.host}:{port}")
    async with registration.kept():
        yield


async def listen(service: Service, settings: WorkerSettings) -> tuple[grpc.aio.Server, int]:
    """A started server and its port. InvalidRequest: a port that is taken, unusable TLS files."""
    size = settings.max_message_mib << 20
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", size),
            # Accept pings on idle connections, however many.
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.so_reuseport", 0),  # two workers must not share a port unnoticed
        ]
    )
    add_EngineServiceServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(service.health, server)
    await service.set_healthy(True)
    reflection.enable_server_reflection((SERVICE_NAME, reflection.SERVICE_NAME), server)
    address = f"{settings.host}:{settings.port}"
    files = settings.tls
    try:
        if files is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, server_credentials(files))
    except RuntimeError:
        raise InvalidRequest(
            f"can't listen on {address}; is the port taken? Set MULTIVERSE_WORKER_PORT",
            field="port",
        ) from None
    await server.start()
    return server, port
