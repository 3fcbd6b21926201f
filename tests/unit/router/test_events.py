"""Events as the native API sends them."""

from __future__ import annotations

import json

import pytest

from multiverse_router.events import (
    AnswerEvent,
    ErrorEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
    event_json,
)

EVENTS: list[tuple[AnswerEvent, dict[str, object]]] = [
    (StartEvent("r", "m", 3), {"type": "start", "request": "r", "model": "m", "prompt_tokens": 3}),
    (
        TextEvent("0.1", "tag", "</Path>", (7, 8)),
        {"type": "text", "path": "0.1", "kind": "tag", "delta": "</Path>", "token_ids": [7, 8]},
    ),
    (
        ForkEvent("0", 2, ("0.1", "0.2"), ("a", "b")),
        {"type": "fork", "path": "0", "k": 2, "paths": ["0.1", "0.2"], "outlines": ["a", "b"]},
    ),
    (
        PathEndEvent("0.2", "length", True),
        {"type": "path_end", "path": "0.2", "reason": "length", "forced": True},
    ),
    (
        JoinEvent("0", 2, ("0.1", "0.2")),
        {"type": "join", "path": "0", "k": 2, "paths": ["0.1", "0.2"]},
    ),
    (
        UsageEvent(3, 20, 4, 10, 2.0, 1, 5, {"stray_tag": 2}),
        {
            "type": "usage",
            "prompt_tokens": 3,
            "completion_tokens": 20,
            "written_tokens": 4,
            "critical_path_tokens": 10,
            "parallelism": 2.0,
            "cached_tokens": 1,
            "reused_tokens": 5,
            "irregular": {"stray_tag": 2},
        },
    ),
    (FinishEvent("stop"), {"type": "finish", "reason": "stop"}),
    (ErrorEvent("not_found_error", "gone"), {"type": "error", "kind": "not_found_error"}),
]


@pytest.mark.parametrize(("event", "expected"), EVENTS, ids=[e.type for e, _ in EVENTS])
def test_an_event_carries_its_type_its_number_and_its_fields(
    event: AnswerEvent, expected: dict[str, object]
) -> None:
    sent = json.loads(json.dumps(event_json(event, 4)))
    assert list(sent)[:2] == ["type", "seq"]
    assert sent["seq"] == 4
    assert expected.items() <= sent.items()
    assert set(sent) >= set(expected)
