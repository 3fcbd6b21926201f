"""What a slow reader gets: everything, in order, in fewer frames."""

from __future__ import annotations

import asyncio

from multiverse_worker.contract import (
    BranchId,
    Finish,
    FinishReason,
    Ids,
    TopLogprobs,
    Update,
)
from multiverse_worker.outbox import Outbox


def update(branch: int, *ids: int, logprobs: tuple[float, ...] = (), end: bool = False) -> Update:
    finish = Finish(FinishReason.LENGTH, lease="1-0") if end else None
    top = tuple(
        TopLogprobs((token,), (logprob,)) for token, logprob in zip(ids, logprobs, strict=False)
    )
    return Update(BranchId(1, branch), ids, logprobs, finish, top)


async def test_updates_of_a_branch_are_merged_in_order() -> None:
    outbox = Outbox()
    outbox.put(update(1, 10, logprobs=(-0.5,)))
    outbox.put(update(1, 11, 12, logprobs=(-1.0, -2.0)))
    outbox.put(update(1, 13, logprobs=(-3.0,), end=True))
    [merged] = await outbox.take()
    assert merged.ids == (10, 11, 12, 13)
    assert merged.logprobs == (-0.5, -1.0, -2.0, -3.0)
    assert [top.ids for top in merged.top_logprobs] == [(10,), (11,), (12,), (13,)]
    assert merged.finish is not None
    assert merged.finish.lease == "1-0"


async def test_each_branch_has_its_own_update() -> None:
    outbox = Outbox()
    for branch, token in ((1, 10), (2, 20), (1, 11)):
        outbox.put(update(branch, token))
    taken = await outbox.take()
    assert {item.branch.number: item.ids for item in taken} == {1: (10, 11), 2: (20,)}


async def test_what_was_taken_is_not_given_again() -> None:
    outbox = Outbox()
    outbox.put(update(1, 10))
    await outbox.take()
    outbox.put(update(1, 11))
    assert [item.ids for item in await outbox.take()] == [(11,)]


async def test_a_reader_waits_until_there_is_something() -> None:
    outbox = Outbox()
    reader = asyncio.create_task(outbox.take())
    await asyncio.sleep(0)
    assert not reader.done()
    outbox.put(update(1, 10))
    async with asyncio.timeout(5):
        assert [item.ids for item in await reader] == [(10,)]


async def test_every_token_of_an_interleaved_run_arrives_once_and_in_order() -> None:
    outbox = Outbox()
    got: dict[int, Ids] = {1: (), 2: ()}

    async def read() -> None:
        while any(len(ids) < 100 for ids in got.values()):
            for item in await outbox.take():
                got[item.branch.number] += item.ids

    reader = asyncio.create_task(read())
    for token in range(100):
        for branch in (1, 2):
            outbox.put(update(branch, token))
        if token % 7 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await reader
    assert got == {1: tuple(range(100)), 2: tuple(range(100))}
