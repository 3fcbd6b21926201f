"""Work that ends with its client: `until_disconnect` and `with_client`."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import Request

from multiverse_router.api.streaming import ClientLeftError, until_disconnect, with_client
from tests.unit.router.asgi import Client, until


class Work:
    """Ends when `go` is set; knows whether it began and how it ended."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go = asyncio.Event()
        self.began = False
        self.end = ""
        self._error = error

    async def run(self) -> str:
        self.began = True
        try:
            await self.go.wait()
            if self._error:
                raise self._error
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # cleaning up takes a while
            self.end = "cancelled"
            raise
        self.end = "done"
        return "result"


async def test_work_that_ends_first_is_waited_for() -> None:
    client, work = Client(), Work()
    watching = asyncio.create_task(
        until_disconnect(client.receive, asyncio.create_task(work.run()))
    )
    await until(lambda: work.began)
    work.go.set()
    assert await watching is True
    assert work.end == "done"


async def test_a_client_that_leaves_ends_the_work_before_it_is_reported() -> None:
    client, work = Client(), Work()
    watching = asyncio.create_task(
        until_disconnect(client.receive, asyncio.create_task(work.run()))
    )
    await until(lambda: work.began)
    client.leave()
    assert await watching is False
    assert work.end == "cancelled"


async def test_a_client_that_left_before_ends_the_work() -> None:
    client, work = Client(), Work()
    client.leave()
    assert await until_disconnect(client.receive, asyncio.create_task(work.run())) is False
    assert work.end != "done"


async def test_what_still_arrives_of_the_request_is_no_disconnect() -> None:
    client, work = Client(chunks=[b"a", b"b", b"c"]), Work()
    watching = asyncio.create_task(
        until_disconnect(client.receive, asyncio.create_task(work.run()))
    )
    await until(lambda: client._incoming.empty())
    work.go.set()
    assert await watching is True


async def test_an_error_of_the_work_is_raised() -> None:
    client, work = Client(), Work(ValueError("broken"))
    work.go.set()
    with pytest.raises(ValueError, match="broken"):
        await until_disconnect(client.receive, asyncio.create_task(work.run()))


async def test_cancelling_the_wait_ends_the_work() -> None:
    client, work = Client(), Work()
    watching = asyncio.create_task(
        until_disconnect(client.receive, asyncio.create_task(work.run()))
    )
    await until(lambda: work.began)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert work.end == "cancelled"


async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    for leaves in (False, True):
        client, work = Client(), Work()
        client.leave() if leaves else work.go.set()
        await until_disconnect(client.receive, asyncio.create_task(work.run()))
    assert asyncio.all_tasks() == before


async def test_the_result_of_the_work_comes_back_to_a_client_that_stays() -> None:
    client, work = Client(), Work()
    work.go.set()
    assert await with_client(Request({"type": "http"}, client.receive), work.run()) == "result"


async def test_a_client_that_leaves_is_an_error_and_no_result() -> None:
    client, work = Client(), Work()
    waiting = asyncio.create_task(
        with_client(Request({"type": "http"}, client.receive), work.run())
    )
    await until(lambda: work.began)
    client.leave()
    with pytest.raises(ClientLeftError):
        await waiting
    assert work.end == "cancelled"
