"""The official Anthropic client, unmodified, against real processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message

from multiverse_cli.stack import Stack
from tests.e2e.answers import FLAT, NESTED, Ask, AskWhole, Tree
from tests.e2e.load import LoadMeter, eventually

MODEL = "multiverse-tiny"
ONLY_BODY = ("temperature", "top_p", "top_k", "multiverse", "unheard")


@pytest.fixture
def claude(stack: Stack) -> Iterator[Anthropic]:
    with Anthropic(base_url=stack.url, api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_claude(stack: Stack) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=stack.url, api_key="any", max_retries=0) as client:
        yield client


def body(prompt: str = FLAT, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {
        "model": MODEL,
        "max_tokens": 1000,
        "temperature": 0,
        "messages": messages,
        **fields,
    }


def asked(prompt: str = FLAT, **fields: Any) -> Any:
    """Arguments of the client, which has none for all that the API knows."""
    more = {name: fields.pop(name) for name in ONLY_BODY if name in fields}
    known = body(prompt, **fields)
    return known | {"extra_body": {"temperature": known.pop("temperature"), **more}}


def text_of(message: Message) -> str:
    [block] = message.content
    assert block.type == "text"
    return block.text


def test_a_message_is_the_answer_in_linear_order(claude: Anthropic, told: Ask) -> None:
    message = claude.messages.create(**asked())
    events = told(FLAT, parallel="auto")
    assert text_of(message) == Tree(events).text()
    assert (message.role, message.type, message.model) == ("assistant", "message", MODEL)
    assert message.id.startswith("msg_")
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    usage = message.usage
    assert usage.output_tokens == events[-2]["completion_tokens"]
    read = usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert read == events[0]["prompt_tokens"]


def test_a_stream_ends_as_the_whole_message(claude: Anthropic, told: Ask) -> None:
    with claude.messages.stream(**asked(NESTED)) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(pieces) > 10
    assert "".join(pieces) == text_of(message) == Tree(told(NESTED, parallel="auto")).text()
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == told(NESTED, parallel="auto")[-2]["completion_tokens"]


async def test_the_async_client_streams_and_asks(async_claude: AsyncAnthropic) -> None:
    whole = await async_claude.messages.create(**asked())
    async with async_claude.messages.stream(**asked()) as stream:
        told = [text async for text in stream.text_stream]
    assert "".join(told) == text_of(whole)


def test_the_raw_events_come_in_the_order_of_their_api(client: httpx.Client) -> None:
    with client.stream("POST", "/v1/messages", json=body(stream=True)) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line and not line.startswith(":")]
    names = [line.removeprefix("event: ") for line in lines[::2]]
    events = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert [event["type"] for event in events] == names
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    assert events[-2]["multiverse"]["parallelism"] > 1


def test_a_budget_that_ends_the_answer_is_max_tokens(claude: Anthropic) -> None:
    message = claude.messages.create(**asked(max_tokens=3))
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 3


def test_a_stop_sequence_is_named_and_left_out(claude: Anthropic) -> None:
    message = claude.messages.create(**asked(stop_sequences=["zzz", "#"]))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "#")
    assert "#" not in text_of(message)


def test_system_prompts_blocks_and_thoughts_of_earlier_turns_are_read(claude: Anthropic) -> None:
    def prompt_tokens(**fields: Any) -> int:
        usage = claude.messages.create(**asked(max_tokens=1, **fields)).usage
        return usage.input_tokens + (usage.cache_read_input_tokens or 0)

    plain = prompt_tokens()
    said = [{"type": "text", "text": FLAT[:5]}, {"type": "text", "text": FLAT[5:]}]
    assert prompt_tokens(messages=[{"role": "user", "content": said}]) == plain
    assert prompt_tokens(system="1234") == plain + 4
    system = [{"type": "text", "text": "12", "cache_control": {"type": "ephemeral"}}]
    assert prompt_tokens(system=system) == plain + 2
    thoughts = [
        {"type": "thinking", "thinking": "7+7", "signature": ""},
        {"type": "text", "text": "12"},
    ]
    turns = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": thoughts},
        {"role": "user", "content": FLAT},
    ]
    only_text = [turns[0], {"role": "assistant", "content": "12"}, turns[2]]
    assert prompt_tokens(messages=turns) == prompt_tokens(messages=only_text)


def test_extensions_stand_under_their_own_key(claude: Anthropic, told_chat: AskWhole) -> None:
    extra = {"parallel": "off", "return_context": True, "seed": 7}
    message = claude.messages.create(**asked(max_tokens=20, multiverse=extra))
    extension = message.model_dump()["multiverse"]
    assert extension["parallelism"] == 1.0
    assert extension["finish_reason"] == "length"
    assert set(extension) == set(told_chat(FLAT)["multiverse"]) | {"context"}
    turns = [
        {"role": "user", "content": FLAT},
        {"role": "assistant", "content": "", "multiverse": {"context": extension["context"]}},
        {"role": "user", "content": "a:1,?"},
    ]
    again = claude.messages.create(**asked(messages=turns, max_tokens=1))
    assert (again.usage.cache_read_input_tokens or 0) > 20


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "be brief"},
        {"system": [{"type": "text", "text": "be brief"}], "thinking": {"type": "disabled"}},
        {"multiverse": {"parallel": "off"}},
    ],
)
def test_tokens_that_are_counted_are_those_that_a_message_reads(
    claude: Anthropic, fields: dict[str, Any]
) -> None:
    asking = asked(max_tokens=1, **fields)
    usage = claude.messages.create(**asking).usage
    del asking["max_tokens"], asking["extra_body"]["temperature"]
    counted = claude.messages.count_tokens(**asking)
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


async def test_counting_starts_no_answer(
    async_claude: AsyncAnthropic, client: httpx.Client
) -> None:
    def answers() -> list[str]:
        lines = client.get("/metrics").text.splitlines()
        return [line for line in lines if line.startswith("multiverse_router_answers_total")]

    before = answers()
    messages: Any = [{"role": "user", "content": FLAT}]
    counted = await async_claude.messages.count_tokens(model=MODEL, messages=messages)
    assert counted.input_tokens > 10
    assert answers() == before


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"tools": [{"name": "f", "input_schema": {"type": "object"}}]}, "BadRequest", "tools"),
        ({"model": "other"}, "NotFound", "other"),
        ({"messages": []}, "BadRequest", "messages"),
        ({"max_tokens": 5}, "BadRequest", "max_tokens"),
    ],
)
def test_what_can_not_be_counted_is_refused(
    claude: Anthropic, fields: dict[str, Any], error: str, words: str
) -> None:
    known: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": FLAT}]}
    more = {name: fields[name] for name in fields if name == "max_tokens"}
    known |= {name: fields[name] for name in fields if name not in more}
    with pytest.raises(getattr(anthropic, f"{error}Error"), match=words):
        claude.messages.count_tokens(**known, extra_body=more)


def test_one_seed_is_one_answer(claude: Anthropic) -> None:
    def drawn(seed: int) -> str:
        extra = {"seed": seed, "min_p": 0.01}
        fields = {"temperature": 1.0, "top_p": 0.99, "top_k": 30, "multiverse": extra}
        return text_of(claude.messages.create(**asked(max_tokens=60, **fields)))

    assert drawn(3) == drawn(3)


def test_what_has_no_meaning_here_is_taken_and_ignored(claude: Anthropic) -> None:
    claude.messages.create(
        **asked(max_tokens=1),
        metadata={"user_id": "me"},
        service_tier="auto",
        thinking={"type": "disabled"},
    )


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"tools": [{"name": "f", "input_schema": {"type": "object"}}]}, "BadRequest", "tools"),
        ({"tool_choice": {"type": "auto"}}, "BadRequest", "tool_choice"),
        ({"max_tokens": 0}, "BadRequest", "max_tokens"),
        ({"messages": [{"role": "user", "content": "1" * 5000}]}, "ContentTooLarge", "shorten it"),
        ({"temperature": 1.5}, "BadRequest", "temperature"),
        ({"stop_sequences": ["x"] * 5}, "BadRequest", "stop_sequences"),
        ({"model": "other"}, "NotFound", "other"),
        ({"messages": []}, "BadRequest", "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "BadRequest", "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "BadRequest", "continued"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "BadRequest",
            "'image'; only text",
        ),
        ({"multiverse": {"max_paths": 0}}, "BadRequest", "multiverse.max_paths"),
        ({"unheard": 1}, "BadRequest", "unheard"),
    ],
)
def test_a_refusal_is_an_error_of_their_form(
    claude: Anthropic, fields: dict[str, Any], error: str, words: str
) -> None:
    expected = getattr(anthropic, f"{error}Error")
    for ask in (claude.messages.create, lambda **all_: claude.messages.create(stream=True, **all_)):
        with pytest.raises(expected, match=words) as caught:
            ask(**asked(**fields))
        assert caught.value.body["type"] == "error"
        assert set(caught.value.body["error"]) == {"type", "message"}


def test_max_tokens_is_required_and_a_body_must_be_json(client: httpx.Client) -> None:
    incomplete = body()
    del incomplete["max_tokens"]
    for response in (
        client.post("/v1/messages", json=incomplete),
        client.post("/v1/messages", content=b"{", headers={"content-type": "application/json"}),
    ):
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_leaving_a_stream_ends_its_work(
    claude: Anthropic, client: httpx.Client, load: LoadMeter
) -> None:
    with claude.messages.stream(**asked(NESTED)) as stream:
        next(iter(stream.text_stream))
    load.until_idle(5.0)
    eventually(lambda: client.get("/ready").json()["running"] == 0, "a router without requests")
