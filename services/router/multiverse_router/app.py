"""The HTTP application of a router: routes over its fleet of workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from fastapi import APIRouter, FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, start_http_server

from multiverse_router.answers import Answers
from multiverse_router.api import anthropic, generate, openai, refusals
from multiverse_router.api.body_limit import BodyLimit
from multiverse_router.api.door import Door
from multiverse_router.api.json_check import JsonCheck
from multiverse_router.api.observation import Observation
from multiverse_router.calls import Calls
from multiverse_router.context_seal import ContextSeal
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.fleet.metrics import FleetCollector
from multiverse_router.gate import Gate
from multiverse_router.limits.admissions import Admissions
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.places import Places
from multiverse_router.limits.shared import SharedLimits
from multiverse_router.metrics import RouterMetrics
from multiverse_router.rpc import server as rpc
from multiverse_router.settings import RouterSettings
from multiverse_shared.api_keys import KeyFile
from multiverse_shared.tracing import tracing

log = logging.getLogger(__name__)


def create_app(settings: RouterSettings, fleet: Fleet | None = None) -> FastAPI:
    """An application that connects to its workers while it runs (through `fleet`, if given).

    InvalidRequest or OSError when its API keys can't be read.
    """
    fleet = fleet or Fleet(settings)
    gate = _gate(settings)
    metrics, calls = RouterMetrics(), Calls()
    redis_url = settings.redis_url.get_secret_value()
    shared = SharedLimits(redis_url) if redis_url else None
    admissions = Admissions(
        Places(settings.max_requests, settings.max_queued),
        shared or LocalLimits(),
        gate.allowance,
        settings.queue_s,
    )
    answers = Answers(
        fleet,
        admissions,
        ContextSeal.of(settings.context_key.get_secret_value()),
        most_prompt_tokens=settings.most_prompt_tokens,
        metrics=metrics,
    )
    metrics.registry.register(FleetCollector(fleet))
    metrics.follow(in_flight=lambda: answers.running, ready=lambda: fleet.ready)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if gate.is_open:
            log.warning(
                "no API keys are set: whoever reaches %s:%d may use the model",
                settings.host,
                settings.port,
            )
        app.openapi()  # made now: it names the routes of all requests, and takes a while
        tasks = [asyncio.create_task(fleet.run())]
        if shared is not None:
            tasks.append(asyncio.create_task(shared.run()))
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(_metrics_server(metrics, settings))
                traces = tracing("multiverse-router", settings.otlp_endpoint, settings.trace_share)
                calls.tracer = stack.enter_context(traces)
                if settings.grpc_port is not None:
                    serving = rpc.serving(answers, settings, gate.admit_call, calls)
                    await stack.enter_async_context(serving)
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    app = FastAPI(title="Multiverse", version="0.1.0", lifespan=lifespan)
    app.state.answers = answers
    _guard(app, settings, answers, gate, calls)
    app.include_router(generate.routes(answers, settings))
    app.include_router(anthropic.routes(answers, settings))
    app.include_router(openai.routes(answers, settings))
    app.include_router(_status(answers, fleet, settings))
    refusals.install(app)
    return app


def _gate(settings: RouterSettings) -> Gate:
    given = settings.keys.get_secret_value()
    if settings.keys_file is None and not given:
        return Gate(None)
    return Gate(KeyFile(settings.keys_file, given))


def _guard(
    app: FastAPI, settings: RouterSettings, answers: Answers, gate: Gate, calls: Calls
) -> None:
    """What stands before every route; the last one added is asked first."""
    app.add_middleware(JsonCheck, keep=settings.log_prompts)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, most_s=settings.body_timeout_s)
    app.add_middleware(Door, gate=gate, closing=lambda: answers.closing)
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )
    app.add_middleware(Observation, answers=answers, calls=calls)


@contextmanager
def _metrics_server(metrics: RouterMetrics, settings: RouterSettings) -> Iterator[None]:
    """/metrics on a port of its own, where the settings name one."""
    if settings.metrics_port is None:
        yield
        return
    server, thread = start_http_server(
        settings.metrics_port, settings.host, registry=metrics.registry
    )
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _status(answers: Answers, fleet: Fleet, settings: RouterSettings) -> APIRouter:
    """What is asked by who runs the router: open to all."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @router.get("/ready")
    async def ready() -> Response:
        """A worker is there, and requests are taken."""
        if answers.closing:
            return JSONResponse({"status": "ending", "reason": "the router is shutting down"}, 503)
        if not fleet.ready:
            status = "refused" if fleet.refused else "not ready"
            return JSONResponse({"status": status, "reason": fleet.reason}, 503)
        names = [model.name for model in fleet.models]
        workers = sum(worker.available for worker in fleet.workers)
        body = {
            "status": "ready",
            "models": names,
            "workers": workers,
            "running": answers.running,
        }
        return JSONResponse(body)

    if settings.metrics_port is None:

        @router.get("/metrics", include_in_schema=False)
        async def exposition() -> Response:
            """Counters in Prometheus' text format."""
            return Response(answers.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    return router
