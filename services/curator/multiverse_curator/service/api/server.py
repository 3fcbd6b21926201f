"""The HTTP application of the curator, and the process that serves it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from multiverse_curator.service.api import datasets, errors, jobs, pages
from multiverse_curator.service.api.door import Door
from multiverse_curator.service.curation import Curation
from multiverse_curator.service.metrics import ApiMetrics
from multiverse_curator.service.settings import CuratorSettings
from multiverse_shared.api_keys import KeyFile

STATIC = Path(__file__).parents[1] / "static"
GRACE_S = 20  # that requests have to end after SIGTERM
IDLE_S = 75  # that a connection without a request stays open: longer than proxies keep one

log = logging.getLogger(__name__)


def create_app(settings: CuratorSettings) -> FastAPI:
    """InvalidRequest or OSError when database, teachers or API keys can't be read."""
    curation = Curation(settings)
    metrics = ApiMetrics(curation.views)
    given = settings.keys.get_secret_value()
    keys = None
    if settings.keys_file is not None or given:
        keys = KeyFile(settings.keys_file, given, setting="MULTIVERSE_CURATOR_KEYS")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if keys is None:
            where = f"{settings.host}:{settings.port}"
            log.warning("no API keys are set: whoever reaches %s may spend money", where)
        try:
            yield
        finally:
            curation.close()

    app = FastAPI(
        title="Multiverse Curator",
        version="0.1.0",
        lifespan=lifespan,
        docs_url=None,  # its scripts come from elsewhere; the schema is at /openapi.json
        redoc_url=None,
    )
    app.add_middleware(
        Door,
        keys=keys,
        metrics=metrics,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.body_timeout_s,
    )
    app.include_router(jobs.routes(curation))
    app.include_router(datasets.routes(curation))
    app.include_router(pages.routes(curation, keys))
    app.include_router(_status(curation, metrics))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    errors.install(app)
    return app


def _status(curation: Curation, metrics: ApiMetrics) -> APIRouter:
    """What is asked by who runs the service: open to all."""
    router = APIRouter()

    @router.get("/health")
    def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @router.get("/ready")
    def ready() -> Response:
        """The database answers."""
        try:
            return JSONResponse({"status": "ready", "version": curation.database.version})
        except SQLAlchemyError as error:
            return JSONResponse({"status": "not ready", "reason": type(error).__name__}, 503)

    @router.get("/metrics", include_in_schema=False)
    def exposition() -> Response:
        """Counters in Prometheus' text format."""
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    return router


def run_api(settings: CuratorSettings) -> None:
    """Until SIGTERM: requests that run may end."""
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
