"""What is made on the event loop, and what in a thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from multiverse_router.api.bodies import Message
from multiverse_router.api.offload import MOST_INLINE, is_small, made_from


@pytest.mark.parametrize(
    "body",
    [
        "x" * (MOST_INLINE + 1),
        [7] * (MOST_INLINE + 1),
        [["x" * MOST_INLINE], {"a": "bc"}],
        {"messages": [Message(role="user", content="x" * MOST_INLINE)] * 2},
    ],
)
def test_texts_and_ids_are_counted_wherever_they_stand(body: Any) -> None:
    assert not is_small(body, MOST_INLINE)


@pytest.mark.parametrize("body", ["", "x" * 2000, [7] * 2000, {"a": ["b", None, 1.5]}])
def test_what_is_below_the_bound_is_small(body: Any) -> None:
    assert is_small(body, MOST_INLINE)


async def test_only_large_bodies_go_to_a_thread() -> None:
    here = threading.current_thread()
    assert await made_from("short", threading.current_thread) is here
    assert await made_from("x" * (MOST_INLINE + 1), threading.current_thread) is not here
