"""GET /v1/models: what is served now."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from multiverse_router.answers import Answers
from multiverse_router.model import ServedModel


def add(router: APIRouter, answers: Answers) -> None:
    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_entry(model) for model in answers.models]}

    @router.get("/v1/models/{name:path}")
    async def one(name: str) -> dict[str, Any]:
        return _entry(answers.model(name))


def _entry(model: ServedModel) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "multiverse",
        "multiverse": {
            "dialect": model.grammar.dialect.name,
            "positions": model.positions.value,
            "context_length": model.context_length,
        },
    }
