"""The router's application over a hand-fed link."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI

from multiverse_router.answers import Answers
from multiverse_router.api import anthropic, generate, openai, refusals
from multiverse_router.api.body_limit import BodyLimit
from multiverse_router.context_seal import ContextSeal
from multiverse_router.settings import RouterSettings
from tests.unit.router.asgi import Client, request
from tests.unit.router.hand_fed import HandFedLink, admissions

MAX_BODY_BYTES = 4096
SEAL = ContextSeal([b"of the tests"])


def application(link: HandFedLink, max_requests: int = 8) -> FastAPI:
    """As `create_app` builds it, but connected to `link`."""
    settings = RouterSettings(max_body_bytes=MAX_BODY_BYTES)
    answers = Answers(link.fleet, admissions(max_requests), SEAL)
    app = FastAPI()
    app.state.answers = answers
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.include_router(generate.routes(answers, settings))
    app.include_router(anthropic.routes(answers, settings))
    app.include_router(openai.routes(answers, settings))
    refusals.install(app)
    return app


async def post(app: FastAPI, path: str, body: Any) -> Client:
    """The answer to one request; `body` is sent as it stands when it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    client = Client(data)
    await request(app, client, "POST", path)
    return client
