"""multiverse_client against real processes, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from multiverse_cli.stack import Stack
from multiverse_client import (
    Answer,
    ApiError,
    AsyncClient,
    Client,
    Fork,
    InvalidRequest,
    NotFound,
    RequestTooLarge,
    Text,
    TimedOut,
    Timeouts,
)
from tests.e2e.answers import FLAT, NESTED, PROMPTS, Ask, Tree
from tests.e2e.load import LoadMeter, eventually

TRANSPORTS = pytest.mark.parametrize("transport", ["http", "grpc"])


def address(stack: Stack, transport: str) -> str:
    return stack.url if transport == "http" else f"grpc://{stack.grpc_address}"


def until_gone(client: httpx.Client, load: LoadMeter) -> None:
    load.until_idle(5.0)
    eventually(lambda: client.get("/ready").json()["running"] == 0, "a router without requests")


@TRANSPORTS
@pytest.mark.parametrize("prompt", PROMPTS)
def test_an_answer_is_the_tree_that_its_events_describe(
    stack: Stack, told: Ask, transport: str, prompt: str
) -> None:
    tree = Tree(told(prompt, parallel="auto"))
    with Client(address(stack, transport)) as client:
        answer = client.generate(prompt, parallel="auto", temperature=0)
    assert answer.text() == tree.text()
    assert answer.text(tags=False) == tree.text("text")
    assert set(answer.paths) == set(tree.paths)
    ids = {name: path.parts for name, path in answer.paths.items()}
    assert {
        name: [token for part in parts if isinstance(part, Text) for token in part.token_ids]
        for name, parts in ids.items()
    } == tree.ids()
    assert answer.usage
    assert answer.usage.completion_tokens == tree.tokens()
    assert answer.usage.critical_path_tokens == tree.longest_chain()
    assert answer.finish_reason == "stop"


@TRANSPORTS
def test_every_option_says_the_same_over_both_transports(stack: Stack, transport: str) -> None:
    def asked(where: str) -> Answer:
        with Client(address(stack, where)) as client:
            return client.generate(
                [{"role": "system", "content": ""}, {"role": "user", "content": FLAT}],
                temperature=0.7,
                seed=11,
                top_p=0.9,
                top_k=40,
                min_p=0.01,
                presence_penalty=0.1,
                frequency_penalty=0.1,
                repetition_penalty=1.05,
                logit_bias={40: -1.5},
                max_tokens=200,
                max_paths=4,
                max_live_paths=2,
                max_depth=2,
                stop=["##"],
                deadline_s=50,
            )

    assert asked(transport).text() == asked("http").text()


@TRANSPORTS
@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"max_tokens": 0}, InvalidRequest, "max_tokens"),
        ({"max_paths": 1 << 40}, InvalidRequest, "max_paths"),
        ({"model": "other"}, NotFound, "model"),
        ({"max_tokens": 1 << 40}, RequestTooLarge, "max_tokens"),
        ({"stop": ["x"] * 5}, InvalidRequest, "stop"),
    ],
)
def test_a_refusal_is_a_typed_error_with_its_field(
    stack: Stack, transport: str, options: Any, error: type[ApiError], field: str
) -> None:
    with Client(address(stack, transport)) as client, pytest.raises(error) as caught:
        client.generate(FLAT, **options)
    assert caught.value.field == field
    assert not caught.value.started


@TRANSPORTS
@pytest.mark.parametrize("most", [1, 20, 60])
def test_leaving_a_stream_ends_its_work(
    stack: Stack, client: httpx.Client, load: LoadMeter, transport: str, most: int
) -> None:
    with Client(address(stack, transport)) as asking, asking.stream(NESTED) as stream:
        for _, _ in zip(range(most), stream, strict=False):
            pass
    until_gone(client, load)
    assert not stream.answer.complete


@TRANSPORTS
async def test_a_cancelled_task_ends_its_work(
    stack: Stack, client: httpx.Client, load: LoadMeter, transport: str
) -> None:
    forked = asyncio.Event()

    async def ask() -> None:
        async with AsyncClient(address(stack, transport)) as asking, asking.stream(NESTED) as told:
            async for event in told:
                if isinstance(event, Fork):
                    forked.set()

    task = asyncio.create_task(ask())
    await forked.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    until_gone(client, load)


@TRANSPORTS
def test_a_timeout_ends_the_work(
    stack: Stack, client: httpx.Client, load: LoadMeter, transport: str
) -> None:
    timeouts = Timeouts(total_s=0.1)
    with Client(address(stack, transport), timeouts=timeouts) as asking, pytest.raises(TimedOut):
        asking.generate(NESTED, parallel="serial")
    until_gone(client, load)


@TRANSPORTS
def test_a_chat_goes_on_from_the_exact_answer(stack: Stack, transport: str) -> None:
    with Client(address(stack, transport)) as client:
        first = client.generate(FLAT, return_context=True)
        turn = first.message()
        assert "multiverse" in turn
        second = client.generate([{"role": "user", "content": FLAT}, turn], max_tokens=1)
    assert first.usage
    assert second.usage
    assert second.usage.prompt_tokens >= first.usage.completion_tokens
    assert second.usage.cached_tokens > first.usage.prompt_tokens


@TRANSPORTS
async def test_many_answers_at_once_are_each_their_own(stack: Stack, transport: str) -> None:
    prompts = [f"max a:{number}+1,b:2+3,?" for number in range(8)]
    async with AsyncClient(address(stack, transport)) as client:
        alone = [(await client.generate(prompt)).text() for prompt in prompts]
        together = await asyncio.gather(*(client.generate(prompt) for prompt in prompts))
    assert [answer.text() for answer in together] == alone


@TRANSPORTS
async def test_models_are_listed(stack: Stack, transport: str) -> None:
    url = address(stack, transport)
    with Client(url) as client:
        [model] = client.models()
    assert (model.name, model.dialect) == ("multiverse-tiny", "multiverse")
    async with AsyncClient(url) as asking:
        assert await asking.models() == [model]
