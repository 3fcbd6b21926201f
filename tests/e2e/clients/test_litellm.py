"""LiteLLM, with this server as an OpenAI-compatible provider."""

from __future__ import annotations

from typing import Any

import litellm
import pytest

from multiverse_cli.stack import Stack
from tests.e2e.answers import FLAT, AskWhole

pytestmark = pytest.mark.filterwarnings("default")


def asked(stack: Stack, **fields: Any) -> dict[str, Any]:
    return {
        "model": "openai/multiverse-tiny",
        "api_base": f"{stack.url}/v1",
        "api_key": "none",
        "messages": [{"role": "user", "content": FLAT}],
        "temperature": 0,
        **fields,
    }


def test_a_chat_is_answered_whole_and_streamed(stack: Stack, told_chat: AskWhole) -> None:
    known = told_chat(FLAT)
    text = known["choices"][0]["message"]["content"]
    whole = litellm.completion(**asked(stack))
    assert whole.choices[0].message.content == text
    assert whole.usage.completion_tokens == known["usage"]["completion_tokens"]
    chunks = list(litellm.completion(**asked(stack, stream=True)))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text


async def test_a_chat_is_answered_asynchronously(stack: Stack, told_chat: AskWhole) -> None:
    whole = await litellm.acompletion(**asked(stack))
    assert whole.choices[0].message.content == told_chat(FLAT)["choices"][0]["message"]["content"]


def test_a_completion_is_answered(stack: Stack) -> None:
    fields = asked(stack, model="text-completion-openai/multiverse-tiny", max_tokens=20)
    del fields["messages"]
    assert litellm.text_completion(**fields, prompt=f"{FLAT} in parallel").choices[0].text


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"model": "openai/gpt-9"}, litellm.NotFoundError),
        ({"temperature": 3}, litellm.BadRequestError),
        (
            {"messages": [{"role": "user", "content": "1" * 3000}]},
            litellm.ContextWindowExceededError,
        ),
    ],
)
def test_errors_are_of_its_own_types(
    stack: Stack, fields: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        litellm.completion(**asked(stack, **fields), num_retries=0)
