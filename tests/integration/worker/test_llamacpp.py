"""What only the llama.cpp engine does: refuses what its library can't, and fails with it."""

from __future__ import annotations

import asyncio

import pytest

from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Block, JoinRule, Text
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from tests.integration.worker.served import PROMPT, Worker
from tests.integration.worker.stream import PATIENCE_S
from tests.integration.worker.stream import text as sent
from tests.unit.worker.client import Client, text


@pytest.mark.parametrize("offset", [{"path_offset": 1}, {"join_offset": -1}], ids=str)
def test_offsets(client: Client, offset: dict[str, int]) -> None:
    inner = Block(((text(4),),), **offset)
    for block in (inner, Block(((text(5), inner, text(6)),))):
        error = client.run(text(1), block, text(7)).finish.error
        assert isinstance(error, InvalidRequest)
        assert "offsets" in error.message


def test_a_text_that_says_where_it_starts_is_refused(client: Client) -> None:
    block = Block(((text(4),), (Text((5,), start=20),)), JoinRule.RESERVE)
    error = client.run(text(1), block, text(6)).finish.error
    assert isinstance(error, InvalidRequest)
    assert "start positions" in error.message


async def test_an_engine_that_fails_is_noticed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("llama_decode failed with -3")

    assert isinstance(worker.engine, LlamaCppEngine)
    monkeypatch.setattr(worker.engine._library, "compute", broken)
    await worker.stream().start(1, sent(*PROMPT), max_tokens=2)
    async with asyncio.timeout(PATIENCE_S):
        await worker.service.broken.wait()
    assert "the engine failed" in caplog.text
