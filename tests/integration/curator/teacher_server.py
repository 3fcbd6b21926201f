"""A server that speaks the Gemini and the OpenAI wire protocol, and behaves as it is told.

Its good answers are real ones: the rules teacher's, made from the material in the prompt. Which
behaviour a question meets follows from its text and the seed, so a run can be repeated.

    python -m tests.integration.curator.teacher_server --behaviour valid=8,busy=1 --latency 0.01

prints its address and serves until it is ended; `GET /calls` tells what was asked. A `--journal`
gets a line for each call that came (`asked CALL TIME`) and that was answered well (`answered ..`),
by the number that the client gave it; it outlives the process.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from multiverse_curator.material import (
    GroupsMaterial,
    RefillMaterial,
    RewriteMaterial,
    SummaryMaterial,
)
from multiverse_curator.teachers.contract import MATERIAL
from multiverse_curator.teachers.rules import RulesTeacher
from multiverse_curator.teachers.wire import CALL_HEADER

SLOW_S = 30.0
RETRY_S = 0.01
XML = "<Parallel><Goal><Outline>1: one</Outline></Parallel></Goal>"


@dataclass
class Script:
    """Weights of behaviours; a question is asked at most `most_faults` times in vain."""

    weights: dict[str, float]
    seed: int = 0
    latency_s: float = 0.0
    most_faults: int = 100
    asked: Counter[str] = field(default_factory=Counter)  # by digest of the prompt
    answered: Counter[str] = field(default_factory=Counter)
    behaved: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    journal: TextIO | None = None

    def note(self, what: str, call: str) -> None:
        if self.journal:
            self.journal.write(f"{what} {call} {time.time()}\n")
            self.journal.flush()

    def next(self, prompt: str) -> str:
        digest = hashlib.sha256(prompt.encode()).hexdigest()
        self.asked[digest] += 1
        rng = random.Random(f"{self.seed} {digest} {self.asked[digest]}")
        behaviour = "valid"
        if self.asked[digest] <= self.most_faults:
            [behaviour] = rng.choices(list(self.weights), list(self.weights.values()))
        self.behaved[behaviour] += 1
        if behaviour == "valid":
            self.answered[digest] += 1
        return behaviour


def material_of(prompt: str) -> BaseModel:
    """The JSON at the end of a prompt, as what it is."""
    data = json.loads(prompt.rpartition(MATERIAL)[2])
    for kind in (RewriteMaterial, RefillMaterial, GroupsMaterial, SummaryMaterial):
        if kind.model_fields.keys() == data.keys():
            return kind.model_validate(data)
    raise ValueError(f"no material: {sorted(data)}")


def good_answer(prompt: str) -> str:
    return RulesTeacher().reply(material_of(prompt)).model_dump_json()


def app_of(script: Script) -> Starlette:
    async def openai(request: Request) -> Response:
        body = await request.json()
        if request.headers.get("authorization") != "Bearer key":
            return JSONResponse({"error": {"message": "no such key", "code": 401}}, 401)
        prompt = body["messages"][0]["content"]
        return await _behave(script, prompt, request, _OpenAI())

    async def gemini(request: Request) -> Response:
        body = await request.json()
        if request.headers.get("x-goog-api-key") != "key":
            error = {"code": 403, "message": "API key not valid", "status": "PERMISSION_DENIED"}
            return JSONResponse({"error": error}, 403)
        prompt = body["contents"][0]["parts"][0]["text"]
        assert body["generationConfig"]["responseMimeType"] == "application/json"
        return await _behave(script, prompt, request, _Gemini())

    async def calls(_: Request) -> Response:
        return JSONResponse(
            {
                "asked": sum(script.asked.values()),
                "questions": len(script.asked),
                "answered": sum(script.answered.values()),
                "answered_twice": sum(n > 1 for n in script.answered.values()),
                "behaved": script.behaved,
                "at_once": script.at_once,
                "most_at_once": script.most_at_once,
            }
        )

    return Starlette(
        routes=[
            Route("/v1/chat/completions", openai, methods=["POST"]),
            Route("/{version}/models/{call:path}", gemini, methods=["POST"]),
            Route("/calls", calls),
        ]
    )


async def _behave(
    script: Script, prompt: str, request: Request, wire: _OpenAI | _Gemini
) -> Response:
    call = request.headers.get(CALL_HEADER, "")
    script.note("asked", call)
    script.at_once += 1
    script.most_at_once = max(script.most_at_once, script.at_once)
    try:
        behaviour = script.next(prompt)
        await _left_within(request, SLOW_S if behaviour == "slow" else script.latency_s)
    finally:
        script.at_once -= 1
    if behaviour == "busy":
        return wire.busy()
    if behaviour == "fault":
        return wire.fault()
    if behaviour == "refused":
        return wire.refused()
    if behaviour == "truncated":
        return JSONResponse(wire.answer(good_answer(prompt)[:20], truncated=True))
    if behaviour == "invalid":
        return JSONResponse(wire.answer(XML))
    answer = wire.answer(good_answer(prompt))
    if behaviour == "valid":
        script.note("answered", call)
    if behaviour == "dropped":
        return StreamingResponse(_broken(json.dumps(answer)), media_type="application/json")
    return JSONResponse(answer)


async def _left_within(request: Request, seconds: float) -> None:
    """Waits that long, or until the client has gone."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                pass


async def _broken(text: str) -> AsyncIterator[str]:
    yield text[: len(text) // 2]
    raise ConnectionError("dropped on command")


class _OpenAI:
    def answer(self, text: str, *, truncated: bool = False) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        reason = "length" if truncated else "stop"
        return self._body({"index": 0, "message": message, "finish_reason": reason})

    def refused(self) -> Response:
        message = {"role": "assistant", "content": None, "refusal": "I won't"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse(self._body(choice))

    def busy(self) -> Response:
        error = {"message": "slow down", "type": "rate_limit", "code": "rate_limit_exceeded"}
        return JSONResponse({"error": error}, 429, {"retry-after": str(RETRY_S)})

    def fault(self) -> Response:
        return JSONResponse({"error": {"message": "oh no", "type": "server_error"}}, 500)

    def _body(self, choice: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [choice],
            "usage": usage,
        }


class _Gemini:
    def answer(self, text: str, *, truncated: bool = False) -> dict[str, Any]:
        thought = {"text": "thinking", "thought": True}
        content = {"role": "model", "parts": [thought, {"text": text}]}
        reason = "MAX_TOKENS" if truncated else "STOP"
        return self._body({"content": content, "finishReason": reason, "index": 0})

    def refused(self) -> Response:
        return JSONResponse(self._body({"finishReason": "SAFETY", "index": 0}))

    def busy(self) -> Response:
        info = {
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": f"{RETRY_S}s",
        }
        error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}
        return JSONResponse({"error": {**error, "details": [info]}}, 429)

    def fault(self) -> Response:
        error = {"code": 500, "message": "oh no", "status": "INTERNAL"}
        return JSONResponse({"error": error}, 500)

    def _body(self, candidate: dict[str, Any]) -> dict[str, Any]:
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 3}
        return {
            "candidates": [candidate],
            "usageMetadata": {**usage, "totalTokenCount": 110},
            "modelVersion": "scripted",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", default="valid=1")
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--most-faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=argparse.FileType("a"))
    options = parser.parse_args()
    pairs = [pair.split("=") for pair in options.behaviour.split(",")]
    weights = {name: float(weight) for name, weight in pairs}
    script = Script(weights, options.seed, options.latency, options.most_faults)
    script.journal = options.journal
    listener = socket.create_server(("127.0.0.1", options.port), backlog=1024)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app_of(script),
        log_level="critical",
        access_log=False,
        timeout_keep_alive=600,  # a connection that is closed between two calls is no answer
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
