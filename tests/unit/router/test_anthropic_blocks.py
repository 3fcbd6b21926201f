"""Answers as content blocks: the sequence of events, and the message that it builds up."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from multiverse_router.api.anthropic.blocks import MessageStream, WholeMessage
from multiverse_router.api.openai.choices import Choice
from multiverse_router.events import (
    THINK,
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.thinking import Thinking

TAGS = Thinking(7, 8)
START = StartEvent("r", "m", 12)
USAGE = UsageEvent(12, 20, 4, 10, 2.0, 5, 6, {})
READ: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def text(delta: str, path: str = "0", kind: str = "text") -> TextEvent:
    return TextEvent(path, kind, delta, (1,))


def think(token: int) -> TextEvent:
    return TextEvent("0", THINK, "<tag>", (token,))


def told(*events: AnswerEvent, thinks: bool = False, keep_tags: bool = True) -> list[Any]:
    stream = MessageStream("msg_1", "m", Choice(keep_tags, TAGS, thinks))
    return [data for event in events for data in stream.tell(event)]


def whole(*events: AnswerEvent, **options: bool) -> dict[str, Any]:
    message = WholeMessage()
    for data in told(*events, USAGE, FinishEvent("stop"), **options):
        message.add(data)
    return message.body


def kinds(data: list[Any]) -> list[str]:
    return [one["type"] for one in data]


def test_thoughts_are_a_block_before_the_text() -> None:
    data = told(
        START, think(7), text("a"), text("b"), think(8), text("c"), USAGE, FinishEvent("stop")
    )
    assert kinds(data) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert data[2]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert data[3]["delta"] == {"type": "thinking_delta", "thinking": "a"}
    assert data[5]["delta"] == {"type": "signature_delta", "signature": ""}
    assert data[7]["content_block"] == {"type": "text", "text": ""}
    assert [one["index"] for one in data if "index" in one] == [0] * 5 + [1] * 3


def test_a_prompt_that_opens_the_thinking_begins_with_thoughts() -> None:
    content = whole(START, text("a"), think(8), text("b"), thinks=True)["content"]
    assert content == [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "text", "text": "b"},
    ]


def test_paths_are_told_in_the_order_of_the_tree() -> None:
    content = whole(
        START,
        ForkEvent("0", 2, ("0.1", "0.2"), ("x", "y")),
        text("second", "0.2"),
        text("first", "0.1"),
        PathEndEvent("0.2", "stop", False),
        PathEndEvent("0.1", "stop", False),
        JoinEvent("0", 2, ("0.1", "0.2")),
        text("</tag>", kind="tag"),
        keep_tags=False,
    )["content"]
    assert content == [{"type": "text", "text": "firstsecond"}]


def test_an_answer_without_text_has_no_blocks() -> None:
    data = told(START, USAGE, FinishEvent("stop"))
    assert kinds(data) == ["message_start", "ping", "message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (FinishEvent("stop"), "end_turn"),
        (FinishEvent("stop", stop="#"), "stop_sequence"),
        (FinishEvent("length"), "max_tokens"),
        (FinishEvent("deadline"), "max_tokens"),
    ],
)
def test_the_reason_is_one_that_clients_know(finish: FinishEvent, reason: str) -> None:
    delta = told(START, text("a"), USAGE, finish)[-2]
    assert delta["delta"] == {"stop_reason": reason, "stop_sequence": finish.stop}
    assert delta["multiverse"]["finish_reason"] == finish.reason
    assert delta["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 5,
        "output_tokens": 20,
    }


def test_a_failure_ends_the_stream_with_an_error() -> None:
    data = told(START, text("a"), ErrorEvent("worker_unavailable", "lost"))
    assert kinds(data)[-2:] == ["content_block_delta", "error"]
    assert data[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "lost"}}


def test_the_whole_message_is_what_the_official_client_builds_from_the_stream() -> None:
    events = [
        START,
        think(7),
        text("a"),
        think(8),
        text("b"),
        text("c"),
        USAGE,
        FinishEvent("stop"),
    ]
    snapshot: Any = None
    for data in told(*events):
        if data["type"] != "ping":
            snapshot = accumulate_event(
                event=READ.validate_python(data), current_snapshot=snapshot, json_bufs={}
            )
    built = snapshot.model_dump(exclude_none=True)
    expected = whole(START, think(7), text("a"), think(8), text("b"), text("c"))
    assert built["content"] == expected["content"]
    assert built["usage"] == expected["usage"]
    assert (built["id"], built["stop_reason"]) == (expected["id"], expected["stop_reason"])
