"""Joins are counted by where their worker had what they go on from."""

from __future__ import annotations

import asyncio

import pytest

from multiverse_router.coordinator import Coordinator
from multiverse_router.observer import JoinSource, Observer
from tests.unit.router.asgi import until
from tests.unit.router.fleet.test_migration import eos
from tests.unit.router.hand_fed import HandFedLink, path, plan, request, text
from tests.unit.router.served import served_model


class Sources(Observer):
    def __init__(self) -> None:
        self.seen: list[JoinSource] = []

    def joined(self, path: str, source: JoinSource) -> None:
        self.seen.append(source)


@pytest.mark.parametrize(
    ("lacking", "fetched", "source"),
    [
        (0, 0, JoinSource.HELD),
        (0, 7, JoinSource.FETCHED),
        (1, 0, JoinSource.RECOMPUTED),
        (1, 7, JoinSource.RECOMPUTED),
    ],
)
async def test_a_join_is_held_fetched_or_recomputed(
    lacking: int, fetched: int, source: JoinSource
) -> None:
    link, sources, model = HandFedLink(), Sources(), served_model()
    pool = link.fleet.pool(model)
    coordinator = Coordinator(pool, model, request(), lambda event: None, sources)
    task = asyncio.create_task(coordinator.run())
    await until(lambda: len(link.starts) == 1)
    link.ended(link.starts[0], plan("1:a", "2:b"), "root")
    await until(lambda: len(link.starts) == 3)
    for number, start in enumerate(link.starts[1:]):
        link.ended(start, path("A"), f"lease {number}")
    await until(lambda: len(link.starts) == 4)
    join = link.starts[3]
    tokens = sum(len(item.text.ids) for item in join.context.items)
    for item in join.context.items:
        tokens += sum(len(part.text.ids) for one in item.block.paths for part in one.items)
    new = len(join.context.items[-1].text.ids)
    reused = {"reused_tokens": tokens - new - lacking, "fetched_tokens": fetched}
    link.ended(join, [*text("end"), eos()], "last", **reused)
    await task
    assert sources.seen == [source]
