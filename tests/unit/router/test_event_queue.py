"""What a reader of an answer's events gets, and when."""

from __future__ import annotations

import asyncio

import pytest

from multiverse_router.event_queue import AT_ONCE, EventQueue
from multiverse_router.events import FinishEvent, TextEvent


def text(number: int) -> TextEvent:
    return TextEvent("0", "text", str(number), (number,))


async def test_events_come_in_order_and_end_where_the_queue_is_closed() -> None:
    queue: EventQueue[TextEvent | FinishEvent] = EventQueue()
    told = [text(1), text(2), FinishEvent("stop")]
    for event in told:
        queue.put(event)
    queue.close()
    assert [event async for event in queue] == told


async def test_a_reader_waits_for_the_next_event() -> None:
    queue: EventQueue[TextEvent | FinishEvent] = EventQueue()
    reading = asyncio.ensure_future(anext(queue))
    await asyncio.sleep(0)
    assert not reading.done()
    queue.put(text(1))
    assert await reading == text(1)


async def test_a_reader_that_waits_is_told_of_the_end() -> None:
    queue: EventQueue[TextEvent | FinishEvent] = EventQueue()
    reading = asyncio.ensure_future(anext(queue))
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(StopAsyncIteration):
        await reading


async def test_what_is_ready_is_taken_at_once_and_only_once() -> None:
    queue: EventQueue[TextEvent | FinishEvent] = EventQueue()
    for number in (1, 2, 3):
        queue.put(text(number))
    assert await anext(queue) == text(1)
    assert queue.ready(1) == [text(2)]
    assert queue.ready(9) == [text(3)]
    assert queue.ready(9) == []
    queue.put(text(4))
    assert await anext(queue) == text(4)


async def test_pieces_hold_what_is_there_at_once_and_have_an_end() -> None:
    queue: EventQueue[TextEvent] = EventQueue()
    told = [text(number) for number in range(AT_ONCE + 2)]
    for event in told:
        queue.put(event)
    pieces = queue.pieces()
    assert await anext(pieces) == told[:AT_ONCE]
    assert await anext(pieces) == told[AT_ONCE:]
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.put(told[0])
    assert await waiting == [told[0]]
    queue.close()
    assert [piece async for piece in pieces] == []


async def test_a_queue_of_several_writers_ends_with_the_last_of_them() -> None:
    queue: EventQueue[TextEvent] = EventQueue(2)
    queue.close()
    queue.put(text(1))
    assert await anext(queue) == text(1)
    queue.close()
    assert [event async for event in queue] == []
