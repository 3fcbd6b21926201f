"""A scripted router, and the four ways to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from multiverse_client import Answer, ApiError, AsyncClient, Client, Event, Retry, Timeouts
from tests.unit.client.scripted import Script, scripted

QUICK = Retry(first_s=0.01, longest_s=0.05)


@pytest.fixture
def router() -> Iterator[Script]:
    with scripted() as script:
        yield script


@dataclass
class Told:
    """What came of one request."""

    events: list[Event]
    answer: Answer
    error: ApiError | None = None


@dataclass(frozen=True)
class Way:
    """Over a transport, sync or not.

    `most` events are read, then the stream is left, and `on_left` is called before the client
    is closed.
    """

    transport: str
    is_async: bool

    def __call__(
        self,
        router: Script,
        *,
        most: int = 1000,
        retry: Retry = QUICK,
        timeouts: Timeouts | None = None,
        api_key: str | None = None,
        on_event: Callable[[Event], object] = lambda _: None,
        on_left: Callable[[], object] = lambda: None,
    ) -> Told:
        known: dict[str, Any] = {"retry": retry, "api_key": api_key}
        known |= {"timeouts": timeouts} if timeouts else {}
        url = router.url(self.transport)
        if self.is_async:
            asking = _ask_async(AsyncClient(url, **known), most, on_event, on_left)
            return asyncio.run(asking)
        return _ask(Client(url, **known), most, on_event, on_left)


def _ask(
    client: Client,
    most: int,
    on_event: Callable[[Event], object],
    on_left: Callable[[], object],
) -> Told:
    with client:
        stream = client.stream("why?")
        told = Told([], stream.answer)
        try:
            with stream:
                for event in stream:
                    told.events.append(event)
                    on_event(event)
                    if len(told.events) == most:
                        break
        except ApiError as error:
            told.error = error
        on_left()
        return told


async def _ask_async(
    client: AsyncClient,
    most: int,
    on_event: Callable[[Event], object],
    on_left: Callable[[], object],
) -> Told:
    async with client:
        stream = client.stream("why?")
        told = Told([], stream.answer)
        try:
            async with stream:
                async for event in stream:
                    told.events.append(event)
                    on_event(event)
                    if len(told.events) == most:
                        break
        except ApiError as error:
            told.error = error
        await asyncio.to_thread(on_left)
        return told


WAYS = [Way(transport, is_async) for transport in ("http", "grpc") for is_async in (False, True)]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way.transport}-{'a' * way.is_async}sync")
def ask(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way
