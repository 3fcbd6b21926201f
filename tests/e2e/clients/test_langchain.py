"""LangChain's chat and completion models for OpenAI's API."""

from __future__ import annotations

import langchain_openai
import pytest

from multiverse_cli.stack import Stack
from tests.e2e.answers import FLAT, AskWhole

pytestmark = pytest.mark.filterwarnings("default")


def test_a_chat_is_answered_whole_streamed_and_in_batches(
    stack: Stack, told_chat: AskWhole
) -> None:
    model = langchain_openai.ChatOpenAI(
        model="multiverse-tiny", base_url=f"{stack.url}/v1", api_key="none", temperature=0
    )
    known = told_chat(FLAT)
    text = known["choices"][0]["message"]["content"]
    answer = model.invoke([("system", ""), ("human", FLAT)])
    assert answer.content == text
    assert answer.usage_metadata["output_tokens"] == known["usage"]["completion_tokens"]
    assert "".join(chunk.content for chunk in model.stream(FLAT)) == text
    assert [each.content for each in model.batch([FLAT, FLAT])] == [text, text]


async def test_a_chat_of_several_turns_is_streamed(stack: Stack) -> None:
    model = langchain_openai.ChatOpenAI(
        model="multiverse-tiny", base_url=f"{stack.url}/v1", api_key="none", max_tokens=5
    )
    turns = [("human", FLAT), await model.ainvoke(FLAT), ("human", FLAT)]
    chunks = [chunk async for chunk in model.astream(turns)]
    assert any(chunk.content for chunk in chunks)


def test_a_completion_is_answered(stack: Stack, told_chat: AskWhole) -> None:
    model = langchain_openai.OpenAI(
        model="multiverse-tiny",
        base_url=f"{stack.url}/v1",
        api_key="none",
        temperature=0,
        max_tokens=400,
    )
    text = told_chat(FLAT)["choices"][0]["message"]["content"]
    assert model.invoke(f"{FLAT} in parallel") == text
    assert "".join(model.stream(f"{FLAT} in parallel")) == text
