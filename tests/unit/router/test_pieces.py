"""Events that are there at once leave in one piece, in every stream, and say the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from multiverse_router.event_queue import AT_ONCE
from tests.unit.router.app import application, post
from tests.unit.router.hand_fed import HandFedLink
from tests.unit.router.openai.player import Player, byte_model

CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/generate", {"prompt": "x", "seed": 7}),
        ("/v1/chat/completions", {**CHAT, "seed": 7, "n": 3}),
        ("/v1/completions", {"prompt": "x", "seed": 7, "max_tokens": 5000}),
        ("/v1/messages", {**CHAT, "model": "small", "multiverse": {"seed": 7}}),
    ],
)
async def test_a_piece_holds_whole_events_and_not_too_many(path: str, body: dict[str, Any]) -> None:
    link = HandFedLink(byte_model())
    player = Player(link)
    playing = asyncio.create_task(player.run())
    client = await post(application(link), path, {**body, "stream": True})
    playing.cancel()
    pieces = [message["body"].decode() for message in client.sent[1:] if message.get("body")]
    events = client.body.strip().split("\n\n")
    assert all(piece.endswith("\n\n") for piece in pieces)
    assert len(pieces) < len(events) / 2
    most = 3 * AT_ONCE  # one event of an answer may be told as three
    assert max(piece.count("\n\n") for piece in pieces) <= most
