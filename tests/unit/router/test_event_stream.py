"""Server-sent events to a client that reads, stalls or leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from multiverse_router.api.streaming import EventStream, sse
from multiverse_router.visit import Visit, current
from tests.unit.router.asgi import Client, request, until

STALLED_S = 0.05


class Producer:
    """Gives `chunks`, waiting for `go` before each; knows when it was closed."""

    def __init__(self, chunks: list[str], *, fails: bool = False) -> None:
        self.go = asyncio.Semaphore(0)
        self.given = 0
        self.began = self.closed = False
        self._chunks = chunks
        self._fails = fails

    def release(self, count: int) -> None:
        for _ in range(count):
            self.go.release()

    async def __call__(self) -> AsyncIterator[str]:
        self.began = True
        try:
            for chunk in self._chunks:
                await self.go.acquire()
                self.given += 1
                yield chunk
            if self._fails:
                raise ValueError("broken")
        finally:
            await asyncio.sleep(0)  # cleaning up takes a while
            self.closed = True


def serve(producer: Producer, client: Client, stalled_s: float = 5.0) -> asyncio.Task[None]:
    return asyncio.create_task(request(EventStream(producer, stalled_s), client, "POST", "/"))


async def test_every_event_is_sent_and_the_response_completed() -> None:
    client, producer = Client(), Producer(["a", "b"])
    producer.release(2)
    await serve(producer, client)
    assert client.status == 200
    assert client.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in client.headers
    assert client.body == "ab"
    assert client.complete
    assert producer.closed


async def test_each_event_is_sent_as_soon_as_it_is_there() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client)
    producer.release(1)
    await until(lambda: client.body == "a")
    assert not client.complete
    producer.release(1)
    await serving


@pytest.mark.parametrize(("whole", "left"), [(True, None), (False, "client")])
async def test_a_client_has_left_only_if_something_was_still_to_be_told(
    whole: bool, left: str | None
) -> None:
    """Many go with the last event, and do not wait for the end of the response."""
    client, producer = Client(), Producer(["a", "b"])
    visit = Visit("", over=lambda: whole)
    token = current.set(visit)
    try:
        serving = serve(producer, client)
    finally:
        current.reset(token)
    producer.release(1)
    await until(lambda: client.body == "a")
    client.leave()
    await serving
    assert producer.closed
    assert not client.complete
    assert visit.left == left


async def test_a_client_that_left_before_gets_nothing_made() -> None:
    client, producer = Client(), Producer(["a"])
    client.leave()
    await serve(producer, client)
    assert producer.given == 0
    assert producer.closed == producer.began


async def test_a_client_that_leaves_between_two_events_closes_the_producer() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client)
    producer.release(1)
    await until(lambda: client.body == "a")
    client.leave()
    await serving
    assert producer.closed
    assert client.body == "a"
    assert not client.complete


async def test_a_client_that_leaves_while_an_event_is_sent_closes_the_producer() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client)
    producer.release(1)
    await until(lambda: client.body == "a")
    client.takes.clear()
    producer.release(1)
    await until(lambda: producer.given == 2)
    client.leave()
    await serving
    assert producer.closed


async def test_a_client_that_leaves_after_the_end_changes_nothing() -> None:
    client, producer = Client(), Producer(["a"])
    producer.release(1)
    serving = serve(producer, client)
    await until(lambda: client.complete)
    client.leave()
    await serving
    assert client.body == "a"


async def test_a_reader_that_takes_nothing_is_given_up() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client, STALLED_S)
    producer.release(1)
    await until(lambda: client.body == "a")
    client.takes.clear()
    producer.release(1)
    async with asyncio.timeout(5):
        await serving
    assert producer.closed
    assert not client.complete


async def test_a_producer_that_takes_its_time_is_not_a_stalled_reader() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client, STALLED_S)
    producer.release(1)
    await until(lambda: client.body == "a")
    done, _ = await asyncio.wait([serving], timeout=3 * STALLED_S)
    assert not done
    producer.release(1)
    await serving
    assert client.body == "ab"


async def test_an_error_of_the_producer_is_raised_and_the_response_left_incomplete() -> None:
    client, producer = Client(), Producer(["a"], fails=True)
    producer.release(1)
    with pytest.raises(ValueError, match="broken"):
        await serve(producer, client)
    assert producer.closed
    assert not client.complete


async def test_cancelling_the_response_closes_the_producer() -> None:
    client, producer = Client(), Producer(["a", "b"])
    serving = serve(producer, client)
    producer.release(1)
    await until(lambda: client.body == "a")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert producer.closed


def test_an_event_is_one_block_of_lines_with_its_name() -> None:
    assert sse({"delta": "a\nb"}, "text") == 'event: text\ndata: {"delta": "a\\nb"}\n\n'
    assert sse({"a": 1}) == 'data: {"a": 1}\n\n'


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\r", "\x0b", "\x0c", "\x1c"])
def test_no_character_of_the_text_breaks_the_line_of_its_event(character: str) -> None:
    """Clients that split text at every line separator of Unicode see one line, too."""
    event = sse({"delta": f"a{character}b"})
    name, rest = event.rstrip("\n").split(": ", 1)
    assert name == "data"
    assert event.splitlines() == [f"data: {rest}", ""]
    assert json.loads(rest) == {"delta": f"a{character}b"}
