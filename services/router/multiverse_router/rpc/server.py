"""The gRPC server of a router: public service, health, reflection.

Runs beside the HTTP application, over the same answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from multiverse_protos.generate.v1.generate_pb2_grpc import add_GenerateServiceServicer_to_server
from multiverse_router.answers import Answers
from multiverse_router.calls import Calls
from multiverse_router.rpc.admission import Admission, Admit
from multiverse_router.rpc.service import SERVICE_NAME, GenerateService
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest

HEALTH_EVERY_S = 0.5
STOP_GRACE_S = 20.0
_SERVES = health_pb2.HealthCheckResponse.SERVING
_SERVES_NOT = health_pb2.HealthCheckResponse.NOT_SERVING

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(
    answers: Answers,
    settings: RouterSettings,
    admit: Admit | None = None,
    calls: Calls | None = None,
) -> AsyncIterator[int]:
    """The port that is served inside; running calls may end when it is left.

    `admit` is asked about every call of the public service. InvalidRequest when the port is taken.
    """
    server = grpc.aio.server(
        interceptors=[Admission(SERVICE_NAME, admit, calls or Calls(), answers.metrics)],
        options=[
            # Up to twice what is taken is read, to be refused with a size and a remedy.
            ("grpc.max_receive_message_length", 2 * settings.max_body_bytes),
            # Accept pings on idle connections, however many; find clients that are lost.
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.keepalive_time_ms", 30_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.so_reuseport", 0),  # two routers must not share a port unnoticed
        ],
    )
    add_GenerateServiceServicer_to_server(GenerateService(answers, settings), server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    address = f"{settings.host}:{settings.grpc_port}"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        raise InvalidRequest(
            f"can't listen on {address}; is the port taken? Set MULTIVERSE_ROUTER_GRPC_PORT",
            field="grpc_port",
        ) from None
    await server.start()
    log.info("gRPC on %s:%d", settings.host, port)
    watching = asyncio.create_task(_report(answers, checks))
    try:
        yield port
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await checks.enter_graceful_shutdown()
        await server.stop(STOP_GRACE_S)


async def _report(answers: Answers, checks: health.aio.HealthServicer) -> None:
    """Health checks are told whether requests are taken, as `/ready` does."""
    while True:
        status = _SERVES if answers.ready else _SERVES_NOT
        for name in ("", SERVICE_NAME):
            await checks.set(name, status)
        await asyncio.sleep(HEALTH_EVERY_S)
