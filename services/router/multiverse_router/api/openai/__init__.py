"""What OpenAI's clients speak: one module per route, and what they share."""

from __future__ import annotations

from fastapi import APIRouter

from multiverse_router.answers import Answers
from multiverse_router.api.openai import chat, completions, models
from multiverse_router.api.openai.errors import OpenAIRoute
from multiverse_router.settings import RouterSettings


def routes(answers: Answers, settings: RouterSettings) -> APIRouter:
    router = APIRouter(route_class=OpenAIRoute)
    models.add(router, answers)
    chat.add(router, answers, settings)
    completions.add(router, answers, settings)
    return router
