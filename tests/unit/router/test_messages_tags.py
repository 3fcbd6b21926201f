"""Tags in messages of Anthropic's API: kept or left out, as request and server say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from multiverse_shared.dialect import Tag
from tests.unit.router.app import application
from tests.unit.router.asgi import Client, request, until
from tests.unit.router.hand_fed import HandFedLink, path, plan, tag, text


async def content(**fields: Any) -> str:
    """The text of a forked message."""
    link = HandFedLink()
    body = {"model": "small", "max_tokens": 500, "messages": [{"role": "user", "content": "x"}]}
    client = Client(json.dumps(body | fields).encode())
    task = asyncio.create_task(request(application(link), client, "POST", "/v1/messages"))
    await until(lambda: link.starts)
    link.ended(link.starts[0], plan("a"), "root")
    await until(lambda: len(link.starts) == 2)
    link.ended(link.starts[1], path("one"), "one")
    await until(lambda: len(link.starts) == 3)
    end = [*text("both"), tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE), link.model.eos[0]]
    link.ended(link.starts[2], end, "")
    await task
    return "".join(block["text"] for block in json.loads(client.body)["content"])


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, True),
        ({"multiverse": {"tags": "keep"}}, True),
        ({"multiverse": {"tags": "strip"}}, False),
    ],
)
async def test_tags_are_kept_unless_the_request_strips_them(
    fields: dict[str, Any], kept: bool
) -> None:
    said = await content(**fields)
    assert ("<Path>" in said) is kept
    assert "one" in said
