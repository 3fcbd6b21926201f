"""Random answers through the whole router: deltas, whole texts, ids and usage agree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from multiverse_router.model import ServedModel
from tests.e2e.answers import Tree
from tests.unit.router.app import application, post
from tests.unit.router.hand_fed import HandFedLink
from tests.unit.router.openai.player import THINK, Player, byte_model
from tests.unit.router.served import served_model

TREES = 500
WHOLE = 10  # one of so many is asked for as a whole, too
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/v1/generate"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "seed": 7}
LIMITS = {"max_tokens": 100_000}


@asynccontextmanager
async def played(
    model: ServedModel, *, thinks: bool = False
) -> AsyncIterator[tuple[FastAPI, Player]]:
    """An application whose worker writes the answers of the player's seed."""
    link = HandFedLink(model)
    player = Player(link, thinks=thinks)
    task = asyncio.create_task(player.run())
    try:
        yield application(link), player
    finally:
        task.cancel()
        player.take()
        assert link.granted == player.given_back


async def whole(app: FastAPI, path: str, **fields: Any) -> dict[str, Any]:
    client = await post(app, path, {**fields, **LIMITS})
    assert client.status == 200, client.body
    body: dict[str, Any] = json.loads(client.body)
    return body


async def chunks(app: FastAPI, path: str, **fields: Any) -> list[dict[str, Any]]:
    body = {**fields, **LIMITS, "stream": True, "stream_options": {"include_usage": True}}
    client = await post(app, path, body)
    *data, done = [part.removeprefix("data: ") for part in client.body.strip().split("\n\n")]
    assert done == "[DONE]"
    return [json.loads(piece) for piece in data]


def deltas(parts: list[dict[str, Any]], name: str = "content", index: int = 0) -> str:
    return "".join(
        choice["delta"].get(name) or ""
        for part in parts
        for choice in part["choices"]
        if choice["index"] == index
    )


@pytest.mark.parametrize("letters", ["bytes merged", "byte fallback"])
async def test_deltas_whole_text_ids_and_usage_agree(letters: str) -> None:
    model = byte_model() if letters == "byte fallback" else served_model(kv_cells=1 << 20)
    forked = nested = 0
    async with played(model) as (app, player):
        for seed in range(TREES // 2):
            player.seed = seed
            streamed = await chunks(app, CHAT, **ASKED)
            native = await whole(app, GENERATE, **ASKED, stream=False)
            text, usage = deltas(streamed), streamed[-1]["usage"]
            if seed % WHOLE == 0:
                answer = await whole(app, CHAT, **ASKED)
                assert answer["choices"][0]["message"]["content"] == text
                assert answer["usage"] == usage
            tree = Tree(native["events"])
            ids = [token for event in tree.texts() for token in event["token_ids"]]
            assert text == native["text"] == tree.text() == model.tokenizer.decode(ids)
            assert "\ufffd" not in text
            assert usage["completion_tokens"] == len(ids)
            extension = streamed[-2]["multiverse"]
            assert extension["critical_path_tokens"] == tree.longest_chain()
            assert extension["written_tokens"] == tree.tokens("written")
            forked += len(tree.paths) > 1
            nested += any(name.count(".") > 1 for name in tree.paths)
    assert forked > TREES // 4
    assert nested > TREES // 20


async def test_what_was_thought_is_apart_and_nothing_is_lost() -> None:
    model = byte_model(thinks=True)
    async with played(model, thinks=True) as (app, player):
        for player.seed in range(15):
            answer = await whole(app, CHAT, **ASKED)
            streamed = await chunks(app, CHAT, **ASKED)
            native = await whole(app, GENERATE, **ASKED, stream=False)
            stripped = await whole(app, CHAT, **ASKED, multiverse={"tags": "strip"})
            message = answer["choices"][0]["message"]
            thought, said = message["reasoning_content"], message["content"]
            assert native["text"] == THINK[0] + thought + THINK[1] + said
            assert deltas(streamed, "reasoning_content") == thought
            assert deltas(streamed) == said
            assert thought
            assert said
            told = list(Tree(native["events"]).texts())
            closing = next(n for n, event in enumerate(told) if event["delta"] == THINK[1])
            count = sum(len(event["token_ids"]) for event in told[: closing + 1])
            details = answer["usage"]["completion_tokens_details"]
            assert details == {"reasoning_tokens": count}
            assert streamed[-1]["usage"]["completion_tokens_details"] == details
            short = stripped["choices"][0]["message"]
            written = [event for event in told[1:closing] if event["kind"] == "text"]
            assert short["reasoning_content"] == "".join(event["delta"] for event in written)
            assert short["content"] == said


async def test_a_tag_spelled_in_other_tokens_is_no_thinking_tag() -> None:
    model = byte_model(thinks=True)
    spelled = model.tokenizer.encode(THINK[1])
    assert len(spelled) > 1
    link = HandFedLink(model)
    task = asyncio.create_task(post(application(link), CHAT, {**ASKED, **LIMITS}))
    while not link.starts:  # noqa: ASYNC110 - of the link's state, not of an event
        await asyncio.sleep(0)
    opening = model.tokenizer.encode_trusted(THINK[0])
    link.ended(link.starts[0], [*opening, *spelled, *model.eos], "root")
    message = json.loads((await task).body)["choices"][0]["message"]
    assert message["reasoning_content"] == THINK[1]
    assert message["content"] == ""


async def test_choices_have_draws_of_their_own_and_are_told_apart() -> None:
    model = byte_model()
    async with played(model) as (app, player):
        for player.seed in range(8):
            alone = await whole(app, CHAT, **ASKED)
            four = await whole(app, CHAT, **ASKED, n=4)
            streamed = await chunks(app, CHAT, **ASKED, n=4)
            texts = [choice["message"]["content"] for choice in four["choices"]]
            assert texts[0] == alone["choices"][0]["message"]["content"]
            assert len(set(texts)) == 4
            assert [deltas(streamed, index=index) for index in range(4)] == texts
            assert four["usage"] == streamed[-1]["usage"]
            assert four["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]
            assert four["usage"]["completion_tokens"] > alone["usage"]["completion_tokens"]
            assert all("multiverse" in choice for choice in four["choices"])


async def test_completions_stream_what_they_answer_whole() -> None:
    model = byte_model()
    asked: dict[str, Any] = {"prompt": ["x", "yz"], "seed": 7, "n": 2, "echo": True}
    async with played(model) as (app, player):
        for player.seed in range(8):
            answer = await whole(app, COMPLETIONS, **asked)
            streamed = await chunks(app, COMPLETIONS, **asked)
            texts = [choice["text"] for choice in answer["choices"]]
            assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
            assert [text[:1] for text in texts] == ["x", "x", "y", "y"]
            told = dict.fromkeys(range(4), "")
            for choice in (choice for part in streamed for choice in part["choices"]):
                told[choice["index"]] += choice["text"]
            assert list(told.values()) == texts
            assert answer["usage"] == streamed[-1]["usage"]
