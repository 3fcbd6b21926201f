"""What every backend of the tier must do; a test class of each inherits it."""

from __future__ import annotations

import asyncio

from multiverse_worker.tier.backend import Backend

NAMES = [bytes([number]) * 32 for number in range(1, 40)]


class BackendConformance:
    """`backend` is a fixture of the class: an open, empty backend."""

    async def test_what_was_put_is_there(self, backend: Backend) -> None:
        await backend.put(NAMES[0], b"block \0\xff")
        assert await backend.get([NAMES[0]]) == [b"block \0\xff"]

    async def test_what_is_not_there_is_none_in_its_place(self, backend: Backend) -> None:
        await backend.put(NAMES[1], b"one")
        await backend.put(NAMES[3], b"three")
        assert await backend.get(NAMES[:4]) == [None, b"one", None, b"three"]

    async def test_a_second_put_replaces_the_first(self, backend: Backend) -> None:
        await backend.put(NAMES[0], b"spoilt")
        await backend.put(NAMES[0], b"good")
        assert await backend.get([NAMES[0]]) == [b"good"]

    async def test_many_calls_overlap(self, backend: Backend) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in NAMES:
                tasks.create_task(backend.put(name, name * 100))
        async with asyncio.TaskGroup() as tasks:
            gets = [tasks.create_task(backend.get([name, NAMES[0]])) for name in NAMES[1:]]
        assert [get.result() for get in gets] == [[n * 100, NAMES[0] * 100] for n in NAMES[1:]]

    async def test_large_blocks_come_back_whole(self, backend: Backend) -> None:
        block = bytes(range(256)) * 4096 * 2
        await backend.put(NAMES[0], block)
        assert await backend.get([NAMES[0]]) == [block]

    async def test_a_cancelled_call_harms_no_other(self, backend: Backend) -> None:
        for name in NAMES:
            await backend.put(name, name * 1000)
        for _ in range(20):
            gone = asyncio.create_task(backend.get(NAMES))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.wait([gone])
            assert await backend.get([NAMES[5]]) == [NAMES[5] * 1000]
