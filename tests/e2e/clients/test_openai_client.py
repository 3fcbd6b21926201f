"""OpenAI's own client: sync and async, streamed or not, its typed errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from multiverse_cli.stack import Stack, free_port
from multiverse_router.app import create_app
from multiverse_router.settings import RouterSettings
from tests.e2e.answers import FLAT, NESTED, AskWhole

MODEL = "multiverse-tiny"
ASKED: list[Any] = [{"role": "user", "content": FLAT}]


@pytest.fixture(scope="module")
def sdk(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_chat_is_answered(sdk: openai.OpenAI, told_chat: AskWhole) -> None:
    answer = sdk.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
    known = told_chat(FLAT)
    assert answer.choices[0].message.content == known["choices"][0]["message"]["content"]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage
    assert answer.usage.completion_tokens == known["usage"]["completion_tokens"]


def test_a_streamed_chat_says_the_same(sdk: openai.OpenAI, told_chat: AskWhole) -> None:
    options: Any = {"include_usage": True}
    stream = sdk.chat.completions.create(
        model=MODEL, messages=ASKED, temperature=0, stream=True, stream_options=options
    )
    *chunks, last = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == told_chat(FLAT)["choices"][0]["message"]["content"]
    assert all(chunk.usage is None and "usage" in chunk.model_fields_set for chunk in chunks)
    assert last.choices == []
    assert last.usage
    assert last.usage.completion_tokens == told_chat(FLAT)["usage"]["completion_tokens"]


def test_the_clients_own_accumulation_of_a_stream_gives_the_whole_answer(
    sdk: openai.OpenAI, told_chat: AskWhole
) -> None:
    with sdk.chat.completions.stream(model=MODEL, messages=ASKED, temperature=0) as stream:
        whole = stream.get_final_completion()
    known = told_chat(FLAT)["choices"][0]["message"]["content"]
    assert whole.choices[0].message.content == known


async def test_chats_at_once_are_answered_each_for_itself(
    stack: Stack, told_chat: AskWhole
) -> None:
    async def streamed(client: openai.AsyncOpenAI, prompt: str) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        stream = await client.chat.completions.create(
            model=MODEL, messages=messages, temperature=0, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="none") as client:
        async with asyncio.TaskGroup() as group:
            told = {p: group.create_task(streamed(client, p)) for p in (FLAT, NESTED)}
        whole = await client.chat.completions.create(model=MODEL, messages=ASKED, temperature=0)
    for prompt, task in told.items():
        assert task.result() == told_chat(prompt)["choices"][0]["message"]["content"]
    assert whole.choices[0].message.content == told[FLAT].result()


def test_four_choices_are_trees_of_their_own(sdk: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "sum a:++,b:--,c:+-+,d:,?"}]
    asked: Any = {"model": MODEL, "messages": messages, "temperature": 2.0, "seed": 13}
    asked["max_tokens"] = 200
    four = sdk.chat.completions.create(**asked, n=4)
    texts = [choice.message.content for choice in four.choices]
    assert [choice.index for choice in four.choices] == [0, 1, 2, 3]
    assert len(set(texts)) == 4
    [alone] = sdk.chat.completions.create(**asked).choices
    assert alone.message.content == texts[0]
    assert [c.message.content for c in sdk.chat.completions.create(**asked, n=4).choices] == texts
    streamed = dict.fromkeys(range(4), "")
    for chunk in sdk.chat.completions.create(**asked, n=4, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert list(streamed.values()) == texts
    assert four.usage
    extensions = [(choice.model_extra or {})["multiverse"] for choice in four.choices]
    assert all(extension["parallelism"] > 1 for extension in extensions)


def test_a_completion_goes_on_from_its_prompt(sdk: openai.OpenAI, told_chat: AskWhole) -> None:
    """The template of this model adds nothing to a message but its prompt suffix."""
    asked: Any = {"model": MODEL, "prompt": f"{FLAT} in parallel", "temperature": 0}
    asked["max_tokens"] = 400
    whole = sdk.completions.create(**asked)
    assert whole.choices[0].text == told_chat(FLAT)["choices"][0]["message"]["content"]
    streamed = sdk.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
    assert sdk.completions.create(model=MODEL, prompt="a").usage.completion_tokens <= 16


def test_models_are_listed_and_found_by_name(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == [MODEL]
    assert sdk.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.models.retrieve("gpt-9")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"model": "gpt-9"}, openai.NotFoundError, "model", "model_not_found"),
        ({"tools": [{}]}, openai.BadRequestError, "tools", "unsupported_parameter"),
        ({"foo": 1}, openai.BadRequestError, "foo", "unknown_parameter"),
        ({"temperature": 3}, openai.BadRequestError, "temperature", "invalid_value"),
        ({"max_tokens": "x"}, openai.BadRequestError, "max_tokens", "invalid_type"),
        (
            {"messages": [{"role": "user", "content": "1" * 3000}]},
            openai.BadRequestError,
            "messages",
            "context_length_exceeded",
        ),
    ],
)
def test_errors_are_of_the_clients_own_types(
    sdk: openai.OpenAI, fields: dict[str, Any], error: type[Exception], param: str, code: str
) -> None:
    with pytest.raises(error) as caught:
        sdk.chat.completions.create(model=MODEL, messages=ASKED, extra_body=fields)
    assert isinstance(caught.value, openai.APIStatusError)
    assert (caught.value.param, caught.value.code) == (param, code)


def test_without_a_worker_the_client_is_told_to_try_again(router_alone: str) -> None:
    alone = openai.OpenAI(base_url=f"{router_alone}/v1", api_key="none", max_retries=0)
    with alone, pytest.raises(openai.InternalServerError) as caught:
        alone.chat.completions.create(model=MODEL, messages=ASKED)
    assert caught.value.status_code == 503


@pytest.fixture
def router_alone() -> Iterator[str]:
    """Answers as a router whose worker never came."""
    port = free_port()
    app = create_app(RouterSettings(workers=f"127.0.0.1:{free_port()}"))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        url = f"http://127.0.0.1:{port}"
        while not server.started:
            thread.join(0.01)
        assert httpx.get(f"{url}/health").status_code == 200
        yield url
    finally:
        server.should_exit = True
        thread.join()
