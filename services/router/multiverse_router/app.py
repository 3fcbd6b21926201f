"""The HTTP application of a router: routes over one worker link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from multiverse_router.answers import Answers
from multiverse_router.api import anthropic, chat, errors, generate
from multiverse_router.api.body_limit import BodyLimit
from multiverse_router.context_seal import ContextSeal
from multiverse_router.rpc import server as rpc
from multiverse_router.settings import RouterSettings
from multiverse_router.worker_link import WorkerLink
from multiverse_shared.errors import WorkerUnavailable


def create_app(settings: RouterSettings) -> FastAPI:
    """An application that connects to its worker while it runs."""
    link = WorkerLink(settings)
    seal = ContextSeal.of(settings.context_key.get_secret_value())
    answers = Answers(link, settings.max_requests, seal)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(link.run())
        try:
            if settings.grpc_port is None:
                yield
            else:
                async with rpc.serving(answers, settings):
                    yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = FastAPI(title="Multiverse", version="0.1.0", lifespan=lifespan)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.include_router(generate.routes(answers, settings))
    app.include_router(anthropic.routes(answers, settings))
    app.include_router(chat.routes(answers, settings))
    errors.install(app)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Response:
        """The worker is there, and requests are taken."""
        try:
            body = {"status": "ready", "model": link.model.name, "running": answers.running}
            return JSONResponse(body)
        except WorkerUnavailable as error:
            status = "refused" if link.refused else "not ready"
            return JSONResponse({"status": status, "reason": error.message}, 503)

    return app
