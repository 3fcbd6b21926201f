"""The table of parameters in docs/api.md, checked against the bodies and the routes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from multiverse_router.api.openai.bodies import ChatBody, CompletionBody, OpenAIDecoding
from multiverse_router.api.openai.parameters import IGNORED, REFUSED
from tests.unit.router.app import application, post
from tests.unit.router.hand_fed import HandFedLink

DOCS = Path(__file__).parents[4] / "docs" / "api.md"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BODIES: dict[str, type[OpenAIDecoding]] = {CHAT: ChatBody, COMPLETIONS: CompletionBody}
GOOD: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "x"}]},
    COMPLETIONS: {"prompt": "x"},
}


def documented(api: str, what: str) -> set[str]:
    """Names in the rows of the table that say `what` for `api`."""
    column = 1 + list(BODIES).index(api)
    names: set[str] = set()
    for line in DOCS.read_text("utf-8").split("| parameter |")[1].split("\n\n")[0].splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[column] == what:
            names |= set(re.findall(r"`([a-z_]+)`", cells[0]))
    return names


@pytest.mark.parametrize("api", BODIES)
def test_the_table_of_parameters_is_what_the_code_does(api: str) -> None:
    assert documented(api, "honoured") == BODIES[api].model_fields.keys() - IGNORED
    assert documented(api, "ignored") == IGNORED
    assert documented(api, "refused") == REFUSED.keys()


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_a_refused_parameter_is_said_to_be_unsupported(api: str, name: str) -> None:
    link = HandFedLink()
    client = await post(application(link), api, {**GOOD[api], name: [1]})
    assert client.status == 400
    assert client.error["param"] == name
    assert client.error["code"] == "unsupported_parameter"
    assert client.error["type"] == "invalid_request_error"
    assert not link.sent


@pytest.mark.parametrize("api", BODIES)
def test_an_ignored_parameter_may_hold_anything(api: str) -> None:
    for value in ("x", 1, True, {"a": ["b"]}, ["c"], None):
        body = BODIES[api](**GOOD[api], **dict.fromkeys(IGNORED, value))
        assert body.model_dump(exclude=set(IGNORED)) == BODIES[api](**GOOD[api]).model_dump(
            exclude=set(IGNORED)
        )


@pytest.mark.parametrize(
    ("api", "fields", "param", "code"),
    [
        (CHAT, {"messages": None}, "messages", "missing_required_parameter"),
        (COMPLETIONS, {"prompt": None}, "prompt", "missing_required_parameter"),
        (CHAT, {"temprature": 1}, "temprature", "unknown_parameter"),
        (CHAT, {"multiverse": {"tools": 1}}, "multiverse.tools", "unknown_parameter"),
        (CHAT, {"max_tokens": "many"}, "max_tokens", "invalid_type"),
        (CHAT, {"max_tokens": 0}, "max_tokens", "invalid_value"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content",
            "invalid_type",
        ),
        (
            CHAT,
            {"messages": [{"role": "tool", "content": "x"}]},
            "messages[0].role",
            "invalid_value",
        ),
        (
            CHAT,
            {"response_format": {"type": "json_object"}},
            "response_format",
            UNSUPPORTED := "unsupported_parameter",
        ),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format",
            UNSUPPORTED,
        ),
        (CHAT, {"modalities": ["text", "audio"]}, "modalities", UNSUPPORTED),
        (CHAT, {"multiverse": {"max_paths": 0}}, "multiverse.max_paths", "invalid_value"),
        (COMPLETIONS, {"best_of": 2}, "best_of", UNSUPPORTED),
        (COMPLETIONS, {"logprobs": 21}, "logprobs", "invalid_value"),
        (COMPLETIONS, {"prompt": []}, "prompt", "invalid_value"),
        (COMPLETIONS, {"prompt": [1, "x"]}, "prompt", "invalid_value"),
        (COMPLETIONS, {"prompt": [-1]}, "prompt", "invalid_value"),
        (COMPLETIONS, {"prompt": [330]}, "prompt", None),
        (COMPLETIONS, {"n": 128, "prompt": ["x", "y"]}, "n", None),
        (COMPLETIONS, {"model": "large"}, "model", "model_not_found"),
    ],
)
async def test_a_wrong_parameter_is_named(
    api: str, fields: dict[str, Any], param: str, code: str | None
) -> None:
    link = HandFedLink()
    client = await post(application(link), api, {**GOOD[api], **fields})
    assert client.status == (404 if code == "model_not_found" else 400)
    assert (client.error["param"], client.error["code"]) == (param, code)
    assert param in client.error["message"]
    assert not link.sent


@pytest.mark.parametrize("body", [b"", b"[]", b'{"prompt": ', b"\xff", b"[" * 100_000, b'"x"'])
@pytest.mark.parametrize("api", BODIES)
async def test_a_body_that_is_no_object_is_refused(api: str, body: bytes) -> None:
    app = application(HandFedLink())
    app.user_middleware.clear()
    client = await post(app, api, body)
    assert client.status == 400
    assert client.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("part", ["image_url", "input_audio", "file", "refusal", "\ud800"])
async def test_a_part_that_is_no_text_is_refused_by_its_type(part: str) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": part}]}]
    data = json.dumps({"messages": messages}).encode()
    client = await post(application(HandFedLink()), CHAT, data)
    assert client.status == 400
    assert client.error["param"] == "messages[0].content"
    assert "part 1" in client.error["message"]
    assert ascii(part)[1:-1] in client.error["message"]


@pytest.mark.parametrize("name", ["tool_calls", "function_call", "refusal", "audio"])
def test_what_an_answer_says_of_itself_may_come_back_when_it_is_empty(name: str) -> None:
    said = {"role": "assistant", "content": None, "name": "me", "reasoning_content": "hm"}
    [message] = ChatBody(messages=[{**said, name: None}]).messages  # type: ignore[list-item]
    assert message.content is None
    with pytest.raises(ValueError, match=name):
        ChatBody(messages=[{**said, name: "x"}])  # type: ignore[list-item]
